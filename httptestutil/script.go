package httptestutil

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// A Step answers one request, as RoundTrip does. It need not close the request's
// body: [Script] does that once the step has returned. A step that wants the
// body reads it itself.
//
// The steps of this package hold no state: each may be used several times, by
// several goroutines at once, and as a responder of jarcoal/httpmock.
type Step = func(*http.Request) (*http.Response, error)

// Script returns a RoundTripper that answers its first call with the first step,
// its second call with the second and so on. Calls may come from any goroutine;
// one that comes when every step is used up fails the test and gets an error.
// Steps that are left over are no failure. A nil step fails the test.
//
// The body of each request is closed when its step has returned, unread unless
// the step has read it.
func Script(tb testing.TB, steps ...Step) http.RoundTripper {
	tb.Helper()
	steps = slices.Clone(steps)
	for i, step := range steps {
		if step == nil {
			tb.Errorf("httptestutil: Script: step %d is nil", i+1)
			steps[i] = Fail(errors.New("httptestutil: nil step"))
		}
	}
	return &script{tb: tb, steps: steps}
}

type script struct {
	tb    testing.TB
	steps []Step

	mu    sync.Mutex // guards calls
	calls int
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	defer closeBody(req)
	return s.next(req)(req)
}

// next returns the step that answers req.
func (s *script) next(req *http.Request) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.calls > len(s.steps) {
		s.tb.Errorf("httptestutil: Script: call %d (%s %s) of a script with %d steps", s.calls, req.Method, req.URL.Redacted(), len(s.steps))
		return Fail(errors.New("httptestutil: no step is left in the script"))
	}
	return s.steps[s.calls-1]
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// Status answers with a status code and a complete body of known length. As on
// the wire, there is no body with a status 1xx, 204 or 304 and in answers to
// HEAD, where ContentLength is still the length of body.
func Status(code int, body string) Step {
	return func(req *http.Request) (*http.Response, error) {
		resp := respond(req, code, body, func(<-chan struct{}) error { return io.EOF })
		if bodyAllowed(code) {
			resp.ContentLength = int64(len(body))
		}
		if body == "" {
			resp.Body = http.NoBody
		}
		return resp, nil
	}
}

// Fail answers with err and no response.
func Fail(err error) Step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// Hang does not answer until the caller gives up. Then it returns, as net/http
// does, the cause of the request's context, or an error of its own if the
// request was cancelled through its Cancel channel.
func Hang() Step {
	return func(req *http.Request) (*http.Response, error) {
		return nil, untilGivenUp(req, nil)
	}
}

// Stall answers with a status code and a body that delivers the bytes of body and
// then stalls: Read waits until the caller gives up, and returns what Hang would
// return, or until Close is called from another goroutine. The length is unknown
// (-1) to the caller. There is no body where Status has none.
func Stall(code int, body string) Step {
	return func(req *http.Request) (*http.Response, error) {
		return respond(req, code, body, func(closed <-chan struct{}) error {
			return untilGivenUp(req, closed)
		}), nil
	}
}

// Truncate answers with a status code and a body that delivers the bytes of body
// and then breaks off with io.ErrUnexpectedEOF. The length is unknown (-1) to the
// caller. There is no body where Status has none.
func Truncate(code int, body string) Step {
	return func(req *http.Request) (*http.Response, error) {
		return respond(req, code, body, func(<-chan struct{}) error { return io.ErrUnexpectedEOF }), nil
	}
}

// respond makes a response whose body has the bytes of text and then ends as end
// says. Its length is unknown where it has a body, and 0 where it cannot have one.
func respond(req *http.Request, code int, text string, end func(closed <-chan struct{}) error) *http.Response {
	resp := &http.Response{
		Status:     strconv.Itoa(code) + " " + http.StatusText(code),
		StatusCode: code,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     make(http.Header),
		Body:       http.NoBody,
		Request:    req,
	}
	if !bodyAllowed(code) {
		return resp
	}
	resp.ContentLength = -1
	if req.Method != http.MethodHead {
		resp.Body = &scriptedBody{rest: text, end: end, closed: make(chan struct{})}
	}
	return resp
}

func bodyAllowed(code int) bool {
	return code >= 200 && code != http.StatusNoContent && code != http.StatusNotModified
}

// untilGivenUp waits for the caller to give req up, or for closed, and returns
// the error that tells so.
func untilGivenUp(req *http.Request, closed <-chan struct{}) error {
	select {
	case <-req.Context().Done():
		return context.Cause(req.Context())
	//lint:ignore SA1019 net/http honours the channel, and http.Client still uses it
	case <-req.Cancel:
		return errors.New("httptestutil: request cancelled")
	case <-closed:
		return http.ErrBodyReadAfterClose
	}
}

// A scriptedBody has the bytes of rest, and then ends as end says.
type scriptedBody struct {
	rest   string
	end    func(closed <-chan struct{}) error
	once   sync.Once
	closed chan struct{}
}

func (b *scriptedBody) Read(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, http.ErrBodyReadAfterClose
	default:
	}
	if b.rest == "" {
		return 0, b.end(b.closed)
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *scriptedBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
