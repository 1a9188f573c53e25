package httptestutil

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Body returns a body with the bytes of s that fails the test unless it is closed
// exactly once: a second Close fails it at once, no Close when the test ends. A
// Read after Close returns http.ErrBodyReadAfterClose. Read and Close may be
// called from different goroutines.
//
// It serves as the body of a request, where net/http knows neither its length nor
// how to get a second copy of it, and as the body of a response. Since a
// transport may close the body of a request some time after it has returned, the
// end of the test waits up to 5 seconds for a Close that is still to come.
func Body(tb testing.TB, s string) io.ReadCloser {
	b := &onceBody{tb: tb, text: strings.NewReader(s), closed: make(chan struct{})}
	tb.Cleanup(b.check)
	return b
}

type onceBody struct {
	tb     testing.TB
	closed chan struct{} // closed by the first Close

	mu     sync.Mutex // guards the rest
	text   *strings.Reader
	closes int
	over   bool // the test has ended: tb must not be used any more
}

func (b *onceBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closes > 0 {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.text.Read(p)
}

func (b *onceBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closes++
	if b.closes == 1 {
		close(b.closed)
		return nil
	}
	if !b.over {
		b.tb.Errorf("httptestutil: Body: closed %d times", b.closes)
	}
	return errors.New("httptestutil: body closed more than once")
}

// check runs when the test ends.
func (b *onceBody) check() {
	late := time.NewTimer(5 * time.Second)
	defer late.Stop()
	select {
	case <-b.closed:
	case <-late.C:
		b.tb.Errorf("httptestutil: Body: never closed")
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}
