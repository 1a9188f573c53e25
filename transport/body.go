package transport

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/respitehttp/respite/policy"
)

// watch makes a failure of it if the body of a successful response breaks. Where
// there is nothing to read, or the connection has become the caller's, nothing is
// watched.
func (g *Gate) watch(req *http.Request, resp *http.Response) {
	if g.Breaker == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	// The body of package timeouts can tell by itself, if it does not tell another.
	if limited, ok := resp.Body.(interface{ Watch(bodyWatcher) bool }); ok && limited.Watch((*watcher)(g)) {
		return
	}
	resp.Body = (&body{inner: resp.Body, req: req, watcher: (*watcher)(g)}).wrapped()
}

// bodyWatcher is told, once, that reading the body of a response failed.
type bodyWatcher = interface {
	BodyFailed(req *http.Request, err error)
}

// watcher is the Gate as a bodyWatcher.
type watcher Gate

func (w *watcher) BodyFailed(req *http.Request, err error) {
	if !policy.CallerGaveUp(req) {
		w.Breaker.Fail(cause(req, nil, err))
	}
}

// body is the body of a response that counted as a success.
type body struct {
	inner   io.ReadCloser
	req     *http.Request
	watcher bodyWatcher
	ended   atomic.Bool // by its end, an error or Close: what comes after that does not count
}

// wrapped returns the body that the caller gets in place of inner. It is an
// io.Writer and an io.WriterTo just if that is.
func (b *body) wrapped() io.ReadCloser {
	w, writes := b.inner.(io.Writer)
	_, writesItself := b.inner.(io.WriterTo)
	switch {
	case writes && writesItself:
		return struct {
			writerTo
			io.Writer
		}{writerTo{b}, w}
	case writes:
		return struct {
			*body
			io.Writer
		}{b, w}
	case writesItself:
		return writerTo{b}
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if err != nil {
		b.end(err)
	}
	return n, err
}

// Close closes the base's body.
func (b *body) Close() error {
	b.ended.Store(true)
	return b.inner.Close()
}

func (b *body) end(err error) {
	if !b.ended.Swap(true) && err != nil && err != io.EOF {
		b.watcher.BodyFailed(b.req, err)
	}
}

// writerTo is a body with the WriteTo of the base's body.
type writerTo struct{ *body }

func (b writerTo) WriteTo(w io.Writer) (int64, error) {
	to := &sink{w: w}
	n, err := b.inner.(io.WriterTo).WriteTo(to)
	if to.err == nil { // else it is the writer's
		b.end(err)
	}
	return n, err
}

// sink is a writer that remembers its error.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (n int, err error) {
	n, s.err = s.w.Write(p)
	if s.err == nil && n < len(p) {
		s.err = io.ErrShortWrite
	}
	return n, s.err
}
