package timeouts

import (
	"context"
	"io"
	"net/http"
)

// body is the response body as the caller gets it. No lock is held over a Read, so
// that Close, from any goroutine, can end it.
type body exchange

// watcher is told of the first error with which reading a body fails, unless the
// caller closed the body before: by then nobody waits for what is missing.
type watcher = interface {
	BodyFailed(req *http.Request, err error)
}

// Watch sets the watcher of the body, before the body is read. It is for package
// transport, which looks for a method of this form, and so need not wrap the body
// a second time.
func (b *body) Watch(w watcher) { b.watcher = w }

// failed tells the watcher, if there is one yet.
func (x *exchange) failed(err error) {
	x.mu.Lock()
	w := x.watcher
	x.watcher = nil
	x.mu.Unlock()
	if w != nil {
		w.BodyFailed(x.caller, err)
	}
}

// wrapped returns the body that the caller gets in place of the base's.
func (x *exchange) wrapped() io.ReadCloser {
	if w, ok := x.body.(io.Writer); ok {
		return struct {
			*body
			io.Writer
		}{(*body)(x), w}
	}
	return (*body)(x)
}

func (b *body) Read(p []byte) (int, error) {
	x := (*exchange)(b)
	if err := x.await(); err != nil {
		return 0, err
	}
	n, err := x.body.Read(p)
	return n, x.arrived(err)
}

// WriteTo uses the WriteTo of the base's body, if it has one.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	x := (*exchange)(b)
	inner, ok := x.body.(io.WriterTo)
	if !ok {
		return io.Copy(w, struct{ io.Reader }{b})
	}
	if err := x.await(); err != nil {
		return 0, err
	}
	to := &arrivals{x: x, w: w}
	n, err := inner.WriteTo(to)
	switch {
	case err == nil:
		err = io.EOF
	case err == to.err: // not the body's
		return n, err
	}
	if err = x.arrived(err); err == io.EOF {
		err = nil
	}
	return n, err
}

// Close closes the base's body and ends the exchange. Later calls do nothing.
func (b *body) Close() error {
	x := (*exchange)(b)
	x.mu.Lock()
	x.watcher = nil
	return x.closeBody()
}

// closeBody closes the base's body, unless it is, and ends the exchange. The
// caller holds mu, which is released.
func (x *exchange) closeBody() error {
	closed, ended := x.closed, x.err != nil
	x.closed = true
	x.mu.Unlock()
	if closed {
		return nil
	}
	if !ended {
		defer x.end()
	}
	return x.body.Close()
}

// await is called before waiting for the base's body, and returns the error of a
// limit that is over already.
func (x *exchange) await() error {
	if err := x.overError(); err != nil {
		x.failed(err)
		return err
	}
	if x.limits.Idle > 0 {
		x.mu.Lock()
		if x.err == nil {
			x.limit(x.now(), Idle, x.limits.Idle)
		}
		x.mu.Unlock()
	}
	return nil
}

// arrived is called after the base's body has given something: data, if err is
// nil, or its end. It returns what the caller gets.
func (x *exchange) arrived(err error) error {
	if err == nil {
		if x.limits.Idle > 0 {
			x.mu.Lock()
			x.unlimit()
			x.mu.Unlock()
		}
		return nil
	}
	x.end()
	if over := x.overError(); over != nil {
		err = over
	}
	if err != io.EOF {
		x.failed(err)
	}
	return err
}

// arrivals is a writer that lets Idle run while the source of the data has it, and
// not while w has.
type arrivals struct {
	x   *exchange
	w   io.Writer
	err error // of w
}

func (a *arrivals) Write(p []byte) (int, error) {
	a.x.arrived(nil)
	n, err := a.w.Write(p)
	if a.err = err; err == nil {
		err = a.x.await()
	}
	return n, err // of await: not the writer's, so that the limit is what WriteTo ends with
}

var _ context.Context = (*child)(nil)
