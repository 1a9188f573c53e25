// Package timeouts gives each request of an http.Client a deadline of its own: for
// the whole of it, for the header, and for silence in the body.
//
//	client := &http.Client{Transport: &timeouts.Transport{
//		Limits: timeouts.Limits{Total: 60 * time.Second},
//	}}
//
// Unlike http.Client.Timeout, it works for every caller of the RoundTripper, tells
// its own deadline from the caller's ([Error] and the caller's error, unchanged),
// can tell a stalled stream from a long one, and starts no goroutine. Unlike a
// context.WithTimeout around RoundTrip, it lasts until the body is read and no
// longer.
//
// # Whose limit it was
//
// The sooner of a limit and the caller's own deadline ends the request. Where it
// is the caller's, or the caller cancels, the error is what the base makes of it,
// as without this package. A request whose caller has a deadline before all the
// limits goes to the base untouched, and so does one whose context is over already.
//
// The limits work through the context of the request, as any deadline does, so they
// end what the base lets it end. A base that ignores it is not ended. Nor is
// net/http, on HTTP/1, while it waits in a Read of a request body: give a request
// no body whose Read may hang, such as an io.Pipe that nobody closes.
//
// # The response
//
// The base's own Response is returned, with its Request set to the caller's. Its
// body is wrapped, unless it has no content. A body that is an io.Writer or an
// io.WriterTo stays one. At a 101 response the limits end, and its body is handed on
// as it is; the connection is no longer the request's.
package timeouts

import (
	"net/http"
	"reflect"
	"time"
)

// Transport is an http.RoundTripper that ends requests whose time is over. It may
// be used as a literal; the zero value limits nothing. It is safe for concurrent
// use, if Base is; its fields must not be changed then.
type Transport struct {
	// Base makes the requests. If nil, http.DefaultTransport does.
	Base http.RoundTripper
	// Limits applies to each request whose context has none of its own, from
	// [WithLimits].
	Limits Limits
}

// RoundTrip lets Base make the request and returns what it returns, its error
// unchanged, or an [*Error] if a limit is over first. A negative limit is an error
// of its own.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	limits, ok := ctx.Value(limitsKey{}).(Limits)
	if !ok {
		limits = t.Limits
	}
	if err := limits.Validate(); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		limits = limits.before(time.Until(deadline))
	}
	if limits == (Limits{}) || ctx.Err() != nil { // over already: the base is to see that at once
		return t.base().RoundTrip(req)
	}

	x := start(req, limits)
	returned := false
	defer func() {
		if !returned { // the base panicked or ended the goroutine
			x.end()
		}
	}()
	resp, err := t.base().RoundTrip(&x.request)
	returned = true
	return x.handOver(resp, err)
}

// handOver takes what the base returned, and returns what the caller gets.
func (x *exchange) handOver(resp *http.Response, err error) (*http.Response, error) {
	content := err == nil && resp != nil && hasContent(resp)
	if over := x.answered(resp, err, content); over != nil {
		if content {
			x.closeBody()
		} else if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		return nil, over
	}
	switch {
	case err != nil || resp == nil:
		x.end()
		return resp, err
	case resp.StatusCode == http.StatusSwitchingProtocols:
		x.letGo()
	case content:
		resp.Body = x.wrapped()
	default:
		x.received()
	}
	if resp.Request == &x.request {
		resp.Request = x.caller
	}
	return resp, nil
}

// answered ends the header phase, and returns the limit that was over before, if
// one was.
func (x *exchange) answered(resp *http.Response, err error, content bool) error {
	x.mu.Lock()
	if content {
		x.body = resp.Body
	}
	var after aftermath
	if err != nil && x.err == nil && x.overdue(x.now()) {
		after = x.expire() // the base knew the deadline, and was quicker than the timer
	} else {
		x.unlimit()
	}
	x.mu.Unlock()
	after.run()
	return x.overError()
}

// hasContent reports whether there may be something to read. There is not in a body
// whose type has no state: http.NoBody, and the one that HTTP/2 has of its own. What
// the header says does not tell: on HTTP/2 a 204 may be followed by a trailer, and
// is not over before that.
func hasContent(resp *http.Response) bool {
	return resp.Body != nil && reflect.TypeOf(resp.Body).Size() > 0 &&
		resp.StatusCode != http.StatusSwitchingProtocols // there the connection is the caller's
}

// CloseIdleConnections passes the call on to Base, if it has such a method.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}
