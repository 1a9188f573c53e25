package httptestutil

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// H3: the suite passes without a wrapper.
func TestH3BareBaseKeepsTheContract(t *testing.T) {
	TestTransport(t, func(base http.RoundTripper) http.RoundTripper { return base })
}

// H3: the suite passes on a wrapper that has a mind of its own, at the bounds that
// TestTransport names.
func TestH3CarefulWrapperKeepsTheContract(t *testing.T) {
	TestTransport(t, func(base http.RoundTripper) http.RoundTripper {
		return &careful{tb: t, base: base, failures: make(chan struct{}, 5)}
	})
}

// H3: the suite fails on a wrapper with a fault, in the subtest that is about it.
func TestH3FaultsAreFound(t *testing.T) {
	records := make([]*Recorder, len(faults))
	var waiting sync.WaitGroup
	for i, f := range faults {
		// All at once, to wait but once; not where goroutines are counted.
		if f.waits && !strings.HasPrefix(f.rule, "no-goroutines") {
			waiting.Go(func() { records[i] = f.record(t) })
		}
	}
	waiting.Wait()

	for i, f := range faults {
		t.Run(f.rule+"/"+f.fault, func(t *testing.T) {
			r := records[i]
			if r == nil {
				r = f.record(t)
			}
			assert.True(t, r.Failed(), "the suite has missed the fault")
			assert.Contains(t, r.Text(), f.says)
			assert.Contains(t, r.Text(), "the rule: ")
			assert.NotContains(t, r.Text(), "Recorder: panic", "in the suite itself")
		})
	}
}

// record runs the subtest that must find the fault.
func (f fault) record(tb testing.TB) *Recorder {
	patience := 10 * time.Second
	if f.waits {
		patience = time.Second
	}
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == f.rule })
	return Record(tb, func(r *Recorder) {
		rules[i].run(&contract{TB: r, wrap: f.wrap, patience: patience})
	})
}

// H3: each subtest can fail.
func TestH3EachRuleHasAFault(t *testing.T) {
	for i, r := range rules {
		assert.True(t, slices.ContainsFunc(faults, func(f fault) bool { return f.rule == r.name }), "no fault makes %s fail", r.name)
		assert.Equal(t, i, slices.IndexFunc(rules, func(other rule) bool { return other.name == r.name }), "%s is there twice", r.name)
	}
}

// A fault is a broken wrapper.
type fault struct {
	fault string
	rule  string // the subtest that must fail
	says  string // part of its message
	waits bool   // it shows as something that does not happen within the patience
	wrap  func(http.RoundTripper) http.RoundTripper
}

var faults = []fault{
	// The request.
	{"header written", "request-unmodified", "fields of the request: [Header]", false, before(func(req *http.Request) *http.Request {
		req.Header.Set("Authorization", "token")
		return req
	})},
	{"header written through a shallow copy", "request-unmodified", "fields of the request: [Header]", false, before(func(req *http.Request) *http.Request {
		req = req.WithContext(req.Context())
		req.Header.Set("Authorization", "token")
		return req
	})},
	{"URL rewritten", "request-unmodified", "fields of the request: [URL]", false, before(func(req *http.Request) *http.Request {
		req.URL.Host = "elsewhere.test"
		return req
	})},
	{"body wrapped in place", "request-unmodified", "fields of the request: [Body]", false, before(func(req *http.Request) *http.Request {
		req.Body = onlyBody{req.Body}
		return req
	})},
	{"context replaced in place", "request-unmodified", "fields of the request: [Context]", false, before(func(req *http.Request) *http.Request {
		*req = *req.WithContext(context.WithValue(req.Context(), new(int), 1))
		return req
	})},
	{"GetBody dropped", "request-arrives", "GetBody is nil", false, dropGetBody},
	{"GetBody dropped", "redirect-resends-body", "GetBody != nil at /a", false, dropGetBody},
	{"length dropped", "request-arrives", "ContentLength", false, dropLength},
	{"length dropped", "redirect-resends-body", "ContentLength at /a", false, dropLength},
	{"header dropped", "request-arrives", "Header X-Test", false, clone(func(req *http.Request) {
		req.Header = make(http.Header)
	})},
	{"trailer dropped", "request-arrives", "Trailer", false, clone(func(req *http.Request) { req.Trailer = nil })},
	{"host dropped", "request-arrives", "Host", false, clone(func(req *http.Request) { req.Host = "" })},
	{"body dropped", "request-arrives", "Body", false, clone(func(req *http.Request) { req.Body = nil })},
	{"nil header written", "request-nil-header", "RoundTrip panicked", false, clone(func(req *http.Request) {
		req.Header.Set("Authorization", "token")
	})},
	{"nil header replaced", "request-nil-header", "replaced in the caller's request", false, before(func(req *http.Request) *http.Request {
		if req.Header == nil {
			req.Header = make(http.Header)
		}
		return req
	})},
	{"nil header refused with the body open", "request-nil-header", "Close of the request's body", true, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		if req.Header == nil {
			return nil, errors.New("nil header")
		}
		return base.RoundTrip(req)
	})},
	{"context over refused with the body open", "request-body-closed", "a context that was over", true, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		return base.RoundTrip(req)
	})},
	{"body closed after a success only", "request-body-closed", "an error of the base", true, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		inner := req.Clone(req.Context())
		inner.Body = io.NopCloser(req.Body)
		resp, err := base.RoundTrip(inner)
		if err == nil {
			req.Body.Close()
		}
		return resp, err
	})},
	{"body closed on return", "request-body-streams", "closed when RoundTrip returned", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		defer closeBody(req)
		return base.RoundTrip(req)
	})},
	{"body buffered", "request-body-streams", "RoundTrip", true, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		all, _ := io.ReadAll(req.Body)
		closeBody(req)
		inner := req.Clone(req.Context())
		inner.Body = io.NopCloser(strings.NewReader(string(all)))
		return base.RoundTrip(inner)
	})},
	{"NoBody wrapped", "request-body-empty", "Transfer-Encoding [chunked]", false, clone(func(req *http.Request) {
		if req.Body != nil {
			req.Body = onlyBody{req.Body}
		}
	})},
	{"nil body wrapped", "request-body-empty", "the body <nil>", false, clone(func(req *http.Request) {
		if req.Body == nil {
			req.Body = onlyBody{http.NoBody}
		}
	})},

	// The context.
	{"values lost", "context-arrives", "value in the context", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithDeadline(context.Background(), deadlineOf(req))
		defer context.AfterFunc(req.Context(), cancel)()
		return base.RoundTrip(req.WithContext(ctx))
	})},
	{"deadline lost", "context-arrives", "deadline", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
		defer context.AfterFunc(req.Context(), cancel)()
		return base.RoundTrip(req.WithContext(ctx))
	})},
	{"context detached", "context-over", "RoundTrip returned the error <nil>", false, detach},
	{"context over sent once more", "context-over", "request sent", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil {
			return resp, nil
		}
		if resp, err := base.RoundTrip(req.WithContext(context.Background())); err == nil {
			io.Copy(io.Discard, resp.Body)
		}
		return nil, err
	})},
	{"context detached", "cancel-before-header", "RoundTrip", true, detach},
	{"cause replaced", "cancel-before-header", "cause of the caller", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if req.Context().Err() != nil {
			return nil, context.Canceled
		}
		return resp, err
	})},
	{"call abandoned but not cancelled", "cancel-before-header", "end of a cancelled call at the server", true, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		type result struct {
			resp *http.Response
			err  error
		}
		done := make(chan result, 1)
		go func() {
			resp, err := base.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
			done <- result{resp, err}
		}()
		select {
		case r := <-done:
			return r.resp, r.err
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		}
	})},
	{"context detached from the body", "cancel-in-body", "Read of the body", true, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
		defer context.AfterFunc(req.Context(), cancel)() // and no longer
		return base.RoundTrip(req.WithContext(ctx))
	})},
	{"Cancel dropped", "cancel-channel", "RoundTrip", true, clone(func(req *http.Request) { cancelOn(req, nil) })},
	{"context detached and Cancel dropped", "client-timeout", "Do of http.Client", true, before(func(req *http.Request) *http.Request {
		req = req.Clone(context.WithoutCancel(req.Context()))
		cancelOn(req, nil)
		return req
	})},

	// Errors, and a base that breaks the contract.
	{"error replaced", "error-from-base", "want httptestutil: error of the base", false, onError(func(err error) (*http.Response, error) {
		return nil, fmt.Errorf("call failed: %v", err)
	})},
	{"error with a response", "error-from-base", "response together with an error", false, onError(func(err error) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusBadGateway, Body: http.NoBody}, err
	})},
	{"error turned into a response", "error-from-base", "returned the error <nil>", false, onError(func(error) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusBadGateway, Body: http.NoBody}, nil
	})},
	{"timeout wrapped", "error-timeout", "Timeout() true", false, onError(func(err error) (*http.Response, error) {
		return nil, fmt.Errorf("call failed: %w", err)
	})},
	{"status 503 turned into an error", "status-no-error", "with status 503", false, onResponse(func(resp *http.Response) error {
		if resp.StatusCode >= 500 {
			resp.Body.Close()
			return errors.New(resp.Status)
		}
		return nil
	})},
	{"redirect followed", "status-no-error", "with status 302", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		return (&http.Client{Transport: base}).Do(req)
	})},
	{"panic swallowed", "base-panics", "RoundTrip returned: true", false, around(func(base http.RoundTripper, req *http.Request) (resp *http.Response, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return base.RoundTrip(req)
	})},
	{"panic replaced", "base-panics", "reached the caller as panic in the base", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		defer func() {
			if p := recover(); p != nil {
				panic("panic in the base")
			}
		}()
		return base.RoundTrip(req)
	})},
	{"lock kept by a panic", "base-panics", "RoundTrip", true, oneAtATime(func(call, unlock func()) {
		call()
		unlock()
	})},
	{"lock kept by an exit", "base-exits", "RoundTrip", true, oneAtATime(func(call, unlock func()) {
		defer func() {
			if p := recover(); p != nil {
				unlock()
				panic(p)
			}
		}()
		call()
		unlock()
	})},
	{"exit on another goroutine", "base-exits", "a call whose base exits", true, around(func(base http.RoundTripper, req *http.Request) (resp *http.Response, err error) {
		done := make(chan struct{})
		go func() {
			resp, err = base.RoundTrip(req)
			close(done)
		}()
		<-done
		return resp, err
	})},
	{"exit turned into an error", "base-exits", "RoundTrip returned: true", false, around(func(base http.RoundTripper, req *http.Request) (resp *http.Response, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			err = errors.New("no answer")
			resp, err = base.RoundTrip(req)
		}()
		<-done
		return resp, err
	})},
	{"nil response read", "base-nil-response", "panicked", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil && resp.StatusCode >= 500 {
			resp.Header.Set("X-Seen", "true")
		}
		return resp, err
	})},
	{"nil response replaced", "base-nil-response", "http.Client returned no error", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil && resp == nil {
			resp = &http.Response{StatusCode: http.StatusBadGateway, Body: http.NoBody}
		}
		return resp, err
	})},
	{"response preferred to the error", "base-response-and-error", "returned the error <nil>", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if resp != nil {
			return resp, nil
		}
		return nil, err
	})},
	{"nil body wrapped", "base-nil-body", "panicked", false, wrapBody(func(body io.ReadCloser) io.ReadCloser { return onlyBody{body} })},
	{"nil body of any length filled in", "base-nil-body", "GET with ContentLength 5", false, onResponse(func(resp *http.Response) error {
		if resp.Body == nil {
			resp.Body, resp.ContentLength = http.NoBody, 0
		}
		return nil
	})},

	// The response.
	{"body read", "response-arrives", "body of the response", false, onResponse(func(resp *http.Response) error {
		io.Copy(io.Discard, resp.Body)
		return nil
	})},
	{"header lost", "response-arrives", "Header X-Test", false, onResponse(func(resp *http.Response) error {
		resp.Header = make(http.Header)
		return nil
	})},
	{"length taken from the body", "response-to-head", "ContentLength", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil {
			body := content(resp.Body)
			resp.Body.Close()
			resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}
		return resp, err
	})},
	{"length demanded of the body", "response-to-head", "reading the body of the response", false, onResponse(func(resp *http.Response) error {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&abruptReader{content(resp.Body), io.ErrUnexpectedEOF}, resp.Body}
		return nil
	})},
	{"compression asked for", "response-gzip", "Uncompressed", false, clone(func(req *http.Request) {
		req.Header.Set("Accept-Encoding", "gzip")
	})},
	{"response copied", "response-trailer", "Trailer", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		result := *resp
		return &result, nil
	})},
	{"NoBody wrapped", "response-nobody", "http.NoBody reached the caller as", false, wrapBody(func(body io.ReadCloser) io.ReadCloser { return onlyBody{body} })},
	{"writer lost", "response-switches-protocols", "cannot be written to", false, wrapBody(func(body io.ReadCloser) io.ReadCloser { return onlyBody{body} })},
	{"CloseWrite lost", "response-switches-protocols", "CloseWrite", false, wrapBody(func(body io.ReadCloser) io.ReadCloser {
		if conn, ok := body.(io.ReadWriteCloser); ok {
			return struct{ io.ReadWriteCloser }{conn}
		}
		return body
	})},
	{"writer taken for granted", "response-switches-protocols", "RoundTrip panicked", false, onResponse(func(resp *http.Response) error {
		if resp.StatusCode == http.StatusSwitchingProtocols {
			resp.Body = resp.Body.(io.ReadWriteCloser)
		}
		return nil
	})},

	// Its body.
	{"context cancelled on return", "body-outlives-call", "the body ended after", false, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		return base.RoundTrip(req.WithContext(ctx))
	})},
	{"last bytes lost with EOF", "body-last-bytes", "content is", false, wrapBody(func(body io.ReadCloser) io.ReadCloser {
		return &bodyFuncs{close: body.Close, read: func(p []byte) (int, error) {
			n, err := body.Read(p)
			if err != nil {
				return 0, err
			}
			return n, nil
		}}
	})},
	{"error lost with the last bytes", "body-last-bytes", "the last Read returned the error EOF, want httptestutil: error of the base", false, wrapBody(func(body io.ReadCloser) io.ReadCloser {
		ended := false
		return &bodyFuncs{close: body.Close, read: func(p []byte) (int, error) {
			if ended {
				return 0, io.EOF
			}
			n, err := body.Read(p)
			ended = err != nil
			return n, nil
		}}
	})},
	{"error followed by EOF", "body-last-bytes", "a Read after the last", false, wrapBody(func(body io.ReadCloser) io.ReadCloser {
		ended := false
		return &bodyFuncs{close: body.Close, read: func(p []byte) (int, error) {
			if ended {
				return 0, io.EOF
			}
			n, err := body.Read(p)
			ended = err != nil
			return n, err
		}}
	})},
	{"Close kept", "body-close-arrives", "without a Read", true, wrapBody(func(body io.ReadCloser) io.ReadCloser { return io.NopCloser(body) })},
	{"Close kept after an error", "body-close-arrives", "after an error", true, wrapBody(func(body io.ReadCloser) io.ReadCloser {
		var failed error
		return &bodyFuncs{
			read: func(p []byte) (n int, err error) {
				n, err = body.Read(p)
				if err != nil && err != io.EOF {
					failed = err
				}
				return n, err
			},
			close: func() error {
				if failed != nil {
					return failed
				}
				return body.Close()
			},
		}
	})},
	{"Close waits for Read", "body-close-ends-read", "Close of a body that is being read", true, wrapBody(func(body io.ReadCloser) io.ReadCloser {
		var mu sync.Mutex
		return &bodyFuncs{
			read: func(p []byte) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				return body.Read(p)
			},
			close: func() error {
				mu.Lock()
				defer mu.Unlock()
				return body.Close()
			},
		}
	})},
	{"writer lost", "body-writer-kept", "without it", false, wrapBody(func(body io.ReadCloser) io.ReadCloser { return onlyBody{body} })},
	{"writer gained", "body-writer-not-gained", "with one", false, wrapBody(func(body io.ReadCloser) io.ReadCloser {
		writer, _ := body.(io.Writer)
		return struct {
			io.ReadCloser
			io.Writer
		}{body, writer}
	})},

	// What is left.
	{"goroutine until the context ends", "no-goroutines-after-eof", "100 calls left", true, around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		go func() { <-req.Context().Done() }()
		return base.RoundTrip(req)
	})},
	{"goroutine until Close", "no-goroutines-after-eof", "100 calls left", true, wrapBodyOf(func(req *http.Request, body io.ReadCloser) io.ReadCloser {
		done := goroutineUntilClosed(req)
		return &bodyFuncs{read: body.Read, close: func() error {
			close(done)
			return body.Close()
		}}
	})},
	{"goroutine until EOF", "no-goroutines-after-close", "100 calls left", true, wrapBodyOf(func(req *http.Request, body io.ReadCloser) io.ReadCloser {
		done := goroutineUntilClosed(req)
		return &bodyFuncs{close: body.Close, read: func(p []byte) (int, error) {
			n, err := body.Read(p)
			if err == io.EOF {
				close(done)
			}
			return n, err
		}}
	})},
	{"CloseIdleConnections hidden", "close-idle-connections", "of the base called", false, func(base http.RoundTripper) http.RoundTripper {
		return struct{ http.RoundTripper }{base}
	}},
	{"CloseIdleConnections taken for granted", "close-idle-connections", "panicked", false, func(base http.RoundTripper) http.RoundTripper {
		return &mustCloseIdle{base}
	}},
	{"first answer given to all", "concurrent", "answer", false, func(base http.RoundTripper) http.RoundTripper {
		var once sync.Once
		var first string
		return roundTripFunc(func(req *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if err == nil {
				body := content(resp.Body)
				resp.Body.Close()
				once.Do(func() { first = body })
				resp.Body = io.NopCloser(strings.NewReader(first))
			}
			return resp, err
		})
	}},
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// around makes a wrapper of a function that is given its base.
func around(f func(base http.RoundTripper, req *http.Request) (*http.Response, error)) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		return roundTripFunc(func(req *http.Request) (*http.Response, error) { return f(base, req) })
	}
}

// before makes a wrapper that gives the base what f makes of the request.
func before(f func(*http.Request) *http.Request) func(http.RoundTripper) http.RoundTripper {
	return around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		return base.RoundTrip(f(req))
	})
}

// clone makes a wrapper that gives the base a copy of the request that f has changed.
func clone(f func(*http.Request)) func(http.RoundTripper) http.RoundTripper {
	return before(func(req *http.Request) *http.Request {
		req = req.Clone(req.Context())
		f(req)
		return req
	})
}

// onError makes a wrapper that returns what f makes of an error.
func onError(f func(error) (*http.Response, error)) func(http.RoundTripper) http.RoundTripper {
	return around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err != nil {
			return f(err)
		}
		return resp, nil
	})
}

// onResponse makes a wrapper that lets f change the response or replace it by an error.
func onResponse(f func(*http.Response) error) func(http.RoundTripper) http.RoundTripper {
	return around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil {
			err = f(resp)
		}
		if err != nil {
			return nil, err
		}
		return resp, nil
	})
}

// wrapBody makes a wrapper that puts f around the body of the response.
func wrapBody(f func(io.ReadCloser) io.ReadCloser) func(http.RoundTripper) http.RoundTripper {
	return wrapBodyOf(func(_ *http.Request, body io.ReadCloser) io.ReadCloser { return f(body) })
}

func wrapBodyOf(f func(*http.Request, io.ReadCloser) io.ReadCloser) func(http.RoundTripper) http.RoundTripper {
	return around(func(base http.RoundTripper, req *http.Request) (*http.Response, error) {
		resp, err := base.RoundTrip(req)
		if err == nil {
			resp.Body = f(req, resp.Body)
		}
		return resp, err
	})
}

var dropGetBody = clone(func(req *http.Request) { req.GetBody = nil })

var dropLength = clone(func(req *http.Request) { req.ContentLength = -1 })

var detach = before(func(req *http.Request) *http.Request {
	return req.WithContext(context.WithoutCancel(req.Context()))
})

// oneAtATime makes a wrapper with a lock that is held while f makes the call.
func oneAtATime(f func(call, unlock func())) func(http.RoundTripper) http.RoundTripper {
	return func(base http.RoundTripper) http.RoundTripper {
		var mu sync.Mutex
		return roundTripFunc(func(req *http.Request) (resp *http.Response, err error) {
			mu.Lock()
			f(func() { resp, err = base.RoundTrip(req) }, mu.Unlock)
			return resp, err
		})
	}
}

func deadlineOf(req *http.Request) time.Time {
	if deadline, ok := req.Context().Deadline(); ok {
		return deadline
	}
	return time.Now().Add(time.Hour)
}

// goroutineUntilClosed starts a goroutine that waits for the channel, or the end of req.
func goroutineUntilClosed(req *http.Request) chan struct{} {
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
		case <-req.Context().Done():
		}
	}()
	return done
}

// An onlyBody hides every method but Read and Close.
type onlyBody struct{ io.ReadCloser }

type bodyFuncs struct {
	read  func([]byte) (int, error)
	close func() error
}

func (b *bodyFuncs) Read(p []byte) (int, error) { return b.read(p) }
func (b *bodyFuncs) Close() error               { return b.close() }

type mustCloseIdle struct{ http.RoundTripper }

func (m *mustCloseIdle) CloseIdleConnections() {
	m.RoundTripper.(interface{ CloseIdleConnections() }).CloseIdleConnections()
}

// A careful wrapper keeps the contract although it has a time limit, wraps bodies
// and refuses every call after the fifth failure, which none should see.
type careful struct {
	tb       testing.TB
	base     http.RoundTripper
	failures chan struct{}
}

func (c *careful) CloseIdleConnections() {
	if pool, ok := c.base.(interface{ CloseIdleConnections() }); ok {
		pool.CloseIdleConnections()
	}
}

func (c *careful) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(c.failures) == cap(c.failures) {
		closeBody(req)
		c.tb.Error("a call after five failures")
		return nil, errors.New("refused")
	}
	ctx, cancel := context.WithTimeout(req.Context(), 10*time.Second)
	inner := req.WithContext(ctx)
	resp, err := c.base.RoundTrip(inner)
	if req.Context().Err() == nil && (err != nil || resp == nil || resp.StatusCode != http.StatusOK) {
		c.failures <- struct{}{}
	}
	switch {
	case err != nil:
		cancel()
		return nil, err
	case resp == nil || resp.Body == nil || resp.Body == http.NoBody:
		cancel()
		return resp, nil
	case resp.StatusCode == http.StatusSwitchingProtocols:
		context.AfterFunc(req.Context(), cancel)
		return resp, nil
	}
	body := &carefulBody{ReadCloser: resp.Body, release: cancel}
	resp.Body = body
	if writer, ok := body.ReadCloser.(io.Writer); ok {
		resp.Body = struct {
			io.ReadCloser
			io.Writer
		}{body, writer}
	}
	return resp, nil
}

type carefulBody struct {
	io.ReadCloser
	release func()
}

func (b *carefulBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

func (b *carefulBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}
