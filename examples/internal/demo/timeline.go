package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Timeline prints what happens, and when. It is safe for concurrent use.
type Timeline struct {
	start time.Time
	mu    sync.Mutex // guards out
	out   io.Writer
}

// NewTimeline returns a Timeline that starts now.
func NewTimeline(out io.Writer) *Timeline { return &Timeline{start: time.Now(), out: out} }

// Printf prints a line, with the time in front.
func (t *Timeline) Printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("%7s  ", t.At(time.Now())) + fmt.Sprintf(format, args...)
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
}

// At returns when that is, such as 1.25s.
func (t *Timeline) At(when time.Time) string {
	return fmt.Sprintf("%.2fs", when.Sub(t.start).Seconds())
}

// SleepUntil waits for the instant that is so long after the start, and reports whether
// it has come: if not, ctx has ended.
func (t *Timeline) SleepUntil(ctx context.Context, after time.Duration) bool {
	select {
	case <-time.After(time.Until(t.start.Add(after))):
		return true
	case <-ctx.Done():
		return false
	}
}
