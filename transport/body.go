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
	// The body of package timeouts can tell by itself.
	if limited, ok := resp.Body.(interface{ Watch(bodyWatcher) }); ok {
		limited.Watch((*watcher)(g))
		return
	}
	b := &body{inner: resp.Body, req: req, watcher: (*watcher)(g)}
	resp.Body = b
	if w, ok := b.inner.(io.Writer); ok {
		resp.Body = struct {
			*body
			io.Writer
		}{b, w}
	}
}

// bodyWatcher is told, once, that reading the body of a response failed.
type bodyWatcher = interface {
	BodyFailed(req *http.Request, err error)
}

// watcher is the Gate as a bodyWatcher.
type watcher Gate

func (w *watcher) BodyFailed(req *http.Request, err error) {
	if !policy.CallerGaveUp(req) {
		w.Breaker.Fail(cause(nil, err))
	}
}

// body is the body of a response that counted as a success.
type body struct {
	inner   io.ReadCloser
	req     *http.Request
	watcher bodyWatcher
	ended   atomic.Bool // by its end, an error or Close: what comes after that does not count
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if err != nil {
		b.end(err)
	}
	return n, err
}

// WriteTo uses the WriteTo of the base's body, if it has one.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	inner, ok := b.inner.(io.WriterTo)
	if !ok {
		return io.Copy(w, struct{ io.Reader }{b})
	}
	to := &sink{w: w}
	n, err := inner.WriteTo(to)
	if err == nil || err != to.err { // else it is the writer's
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

// sink is a writer that remembers its error.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (n int, err error) {
	n, s.err = s.w.Write(p)
	return n, s.err
}
