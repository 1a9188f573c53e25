package timeouts

import (
	"io"
	"net/http"
)

// body is the response body as the caller gets it. No lock is held over a Read, so
// that Close, from any goroutine, can end it.
type body exchange

// wrapped returns the body that the caller gets in place of the base's. It is an
// io.Writer and an io.WriterTo just if that is.
func (x *exchange) wrapped() io.ReadCloser {
	b := (*body)(x)
	w, writes := x.body.(io.Writer)
	_, writesItself := x.body.(io.WriterTo)
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
	x := (*exchange)(b)
	if err := x.await(); err != nil {
		return 0, err
	}
	n, err := x.body.Read(p)
	return n, x.arrived(err)
}

// Close closes the base's body and ends the exchange. Later calls do nothing.
func (b *body) Close() error {
	x := (*exchange)(b)
	x.unwatched()
	return x.closeBody()
}

// closeBody closes the base's body, unless it is closed, and ends the exchange.
func (x *exchange) closeBody() error {
	if x.closed.Swap(true) {
		return nil
	}
	if !x.ended.Load() {
		defer x.end()
	}
	return x.body.Close()
}

// await is called before waiting for the base's body, and returns the error of a
// limit that is over already.
func (x *exchange) await() error {
	if over := x.overError(); over != nil {
		if w := x.unwatched(); w != nil {
			w.BodyFailed(x.caller, over)
		}
		return over
	}
	if x.limits.Idle > 0 {
		x.mu.Lock()
		if !x.gone {
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
			if !x.gone {
				x.unlimit()
			}
			x.mu.Unlock()
		}
		return nil
	}
	if over := x.overError(); over != nil {
		err = over
	}
	if err == io.EOF {
		x.received()
		return err
	}
	w := x.unwatched()
	x.end()
	if w != nil {
		w.BodyFailed(x.caller, err)
	}
	return err
}

// writerTo is a body with the WriteTo of the base's body.
type writerTo struct{ *body }

func (b writerTo) WriteTo(w io.Writer) (int64, error) {
	x := (*exchange)(b.body)
	if err := x.await(); err != nil {
		return 0, err
	}
	to := &arrivals{x: x, w: w}
	n, err := x.body.(io.WriterTo).WriteTo(to)
	switch {
	case to.err != nil: // the writer's, not the body's
		return n, err
	case err == nil:
		err = io.EOF
	}
	if err = x.arrived(err); err == io.EOF {
		err = nil
	}
	return n, err
}

// arrivals is a writer that lets Idle run while the source of the data has it, and
// not while w has.
type arrivals struct {
	x   *exchange
	w   io.Writer
	err error // of w
}

func (a *arrivals) Write(p []byte) (n int, err error) {
	a.x.arrived(nil)
	n, a.err = a.w.Write(p)
	if a.err == nil && n < len(p) {
		a.err = io.ErrShortWrite
	}
	if a.err != nil {
		return n, a.err
	}
	return n, a.x.await()
}

// watcher is told of the first error with which reading a body fails, unless the
// body has ended or the caller has closed it: by then nobody waits for what is
// missing.
type watcher = interface {
	BodyFailed(req *http.Request, err error)
}

// Watch sets the watcher of the body, before the body is read, and reports whether
// it did: there can be one. It is for package transport, which looks for a method
// of this form, and so need not wrap the body a second time.
func (b *body) Watch(w watcher) bool {
	if b.watcher != nil {
		return false
	}
	b.watcher = w
	return true
}

// unwatched takes the watcher away, and returns it.
func (x *exchange) unwatched() watcher {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.watcher
	x.watcher = nil
	return w
}
