package httptestutil

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A Recorder is a testing.TB that notes failures instead of passing them on.
type Recorder struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // guards the rest
	failed   bool
	log      []string
	cleanups []func()
}

// Record runs test on a goroutine of its own, so that FailNow works, and then its
// cleanup functions. A panic is a failure.
func Record(tb testing.TB, test func(*Recorder)) *Recorder {
	r := &Recorder{TB: tb}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.run(func() { test(r) })
	r.cancel()
	for _, cleanup := range slices.Backward(r.cleanups) {
		r.run(cleanup)
	}
	return r
}

func (r *Recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("Recorder: panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

// Text returns all that was logged.
func (r *Recorder) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.log, "\n")
}

func (r *Recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *Recorder) note(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.log = append(r.log, text)
}

func (r *Recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *Recorder) Helper()                           {}
func (r *Recorder) Context() context.Context          { return r.ctx }
func (r *Recorder) Log(args ...any)                   { r.note(false, fmt.Sprint(args...)) }
func (r *Recorder) Logf(format string, args ...any)   { r.note(false, fmt.Sprintf(format, args...)) }
func (r *Recorder) Error(args ...any)                 { r.note(true, fmt.Sprint(args...)) }
func (r *Recorder) Errorf(format string, args ...any) { r.note(true, fmt.Sprintf(format, args...)) }

func (r *Recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *Recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
