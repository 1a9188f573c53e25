package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
)

// Gate is an http.RoundTripper that lets requests through to its base as a breaker
// allows, and reports their outcomes to it. [New] makes one with limits and a log;
// a literal has neither. It is safe for concurrent use, if Base and Classify are;
// its fields must not be changed then.
//
// A request that is refused gets an error that matches [breaker.ErrOpen], and is a
// [*breaker.OpenError], also in the *url.Error of an http.Client. It costs no timer,
// no context and no connection, and its body is closed.
//
// With Wait, a request during a pause waits for its end instead, or until its
// context ends; the time limits begin after that. One of those that wait becomes
// the trial, the others wait on. A request whose deadline lies before the end of
// the pause is refused at once. The deprecated http.Request.Cancel does not end
// the wait.
//
// The outcome is decided when the header has arrived, so a trial that is a long
// stream does not hold others up. If it was a success and a Read of the body then
// fails, because the body breaks or a limit is over, that is one failure more
// ([breaker.Breaker.Fail]), unless the caller gave up or closed the body before. A
// 101 response is handed on with its body as it is: what becomes of that connection
// is no outcome.
//
// A request whose context has ended already is answered with context.Cause of it,
// and nothing else happens.
//
// A base that breaks the contract of http.RoundTripper harms nobody. If it panics
// or ends its goroutine, so does RoundTrip, and a trial is given back; if it returns
// neither a response nor an error, or no body where there should be one, that is an
// error; a response together with an error is closed and left out.
type Gate struct {
	// Base makes the requests. If nil, http.DefaultTransport does.
	Base http.RoundTripper
	// Breaker decides whether a request may be made. If nil, every one may.
	Breaker *breaker.Breaker
	// Classify decides what the outcome of a request says about the server. If
	// nil, [policy.Only200] does.
	Classify policy.Classifier
	// Wait makes requests wait during a pause, instead of being refused.
	Wait bool
}

// RoundTrip makes the request, if the breaker allows it, and returns what Base
// returns.
func (g *Gate) RoundTrip(req *http.Request) (*http.Response, error) {
	if ctx := req.Context(); ctx.Err() != nil {
		closeBody(req)
		return nil, context.Cause(ctx)
	}
	var (
		call    breaker.Call
		resp    *http.Response
		reached bool // Base, which from then on has the request's body
		settled bool
	)
	defer func() {
		if settled {
			return
		}
		// Base, Classify or OnChange has panicked, or ended the goroutine.
		call.Cancel()
		if !reached {
			closeBody(req)
		}
		if resp != nil {
			resp.Body.Close()
		}
	}()

	var err error
	if g.Breaker != nil { // else the zero Call reports to nobody
		if call, err = g.Breaker.Allow(); err != nil && g.Wait {
			call, err = g.wait(req)
		}
	}
	if err != nil {
		settled = true
		closeBody(req)
		return nil, err
	}
	reached = true
	resp, err = g.base().RoundTrip(req)
	if err != nil || resp == nil || resp.Body == nil {
		resp, err = mend(req, resp, err)
	}
	switch g.classify(req, resp, err) {
	case policy.Success:
		call.Succeed()
		g.watch(req, resp)
	case policy.Failure:
		call.Fail(cause(req, resp, err))
	default:
		call.Cancel()
	}
	settled = true
	return resp, err
}

// wait waits until the breaker allows the call.
func (g *Gate) wait(req *http.Request) (breaker.Call, error) {
	for {
		if err := g.Breaker.Wait(req.Context()); err != nil {
			return breaker.Call{}, err
		}
		if call, err := g.Breaker.Allow(); err == nil {
			return call, nil
		}
	}
}

// mend makes what a base returned in place of a response with a body keep the contract
// of http.RoundTripper.
func mend(req *http.Request, resp *http.Response, err error) (*http.Response, error) {
	switch {
	case err != nil:
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		return nil, err
	case resp == nil:
		return nil, errNothing
	case resp.ContentLength > 0 && req.Method != http.MethodHead:
		return nil, fmt.Errorf("transport: base returned a response of %d bytes without a body", resp.ContentLength)
	}
	resp.Body = http.NoBody
	return resp, nil
}

var errNothing = errors.New("transport: base returned neither a response nor an error")

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// Wrap returns the same gate around another base, in place of the innermost: it
// shares the breaker and, if Base is a [*timeouts.Transport] as [New] makes it, has
// the same limits around the other base. A nil base is http.DefaultTransport.
func (g *Gate) Wrap(base http.RoundTripper) http.RoundTripper {
	wrapped := *g
	wrapped.Base = base
	if limited, ok := g.Base.(*timeouts.Transport); ok {
		wrapped.Base = &timeouts.Transport{Base: base, Limits: limited.Limits}
	}
	return &wrapped
}

// CloseIdleConnections passes the call on to Base, if it has such a method.
func (g *Gate) CloseIdleConnections() {
	if base, ok := g.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (g *Gate) base() http.RoundTripper {
	if g.Base == nil {
		return http.DefaultTransport
	}
	return g.Base
}

func (g *Gate) classify(req *http.Request, resp *http.Response, err error) policy.Outcome {
	if g.Classify == nil {
		return policy.Only200(req, resp, err)
	}
	return g.Classify(req, resp, err)
}
