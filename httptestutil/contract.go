package httptestutil

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestTransport tests that what wrap puts around a RoundTripper keeps the contract
// of [http.RoundTripper], and what users of net/http rely on besides: the request
// is never modified and its body always closed, the response and its body arrive
// as the base made them, cancellation works before and after the header, and a
// base that panics or answers nonsense breaks nothing. Each rule is a subtest.
//
// wrap is called anew for each subtest, sometimes more than once, and always with
// another base: a fake one, or an *http.Transport that speaks HTTP/1.1 or HTTP/2
// to a server on the loopback interface. It must return a wrapper that shares no
// state with those before it. A bare base passes, so wrap may return its argument.
//
// The suite suits wrappers with a mind of their own, within these bounds. One that
// refuses calls after failures, such as a circuit breaker, lets five failures pass:
// no wrapper sees more than five calls that end with an error or with another
// status than 200. One with time limits sets them to 10 seconds or more. One
// that adds to a request, such as a header, does so on a copy. One that buffers or
// replaces bodies, or answers in place of the base, is not transparent and fails
// the subtests that say so.
//
// Two rules that many wrappers forget: CloseIdleConnections must be passed on to the
// base, and a request whose Header is nil must not cause a panic. The rules are the
// subtests, so -run TestContract/close-idle-connections runs one of them.
//
// It does not run in a bubble of testing/synctest, should not run in parallel with
// other tests, since it counts goroutines, and is best run with -race.
func TestTransport(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			r.run(&contract{TB: t, wrap: wrap, patience: 10 * time.Second})
		})
	}
}

// A rule is one subtest. Its text is shown when the subtest fails.
type rule struct {
	name  string
	text  string
	check func(*contract)
}

var rules = []rule{
	// The request.
	{"request-unmodified", "RoundTrip must not modify the request, except for consuming and closing its body", requestUnmodified},
	{"request-arrives", "what the request holds must reach the base: header, trailer, body, GetBody and the rest", requestArrives},
	{"request-nil-header", "a request with a nil Header must not cause a panic, and its body must be closed", requestNilHeader},
	{"request-body-closed", "the request's body must be closed on every path, errors included", requestBodyClosed},
	{"request-body-streams", "the request's body must reach the base as a stream, and be open for it even after RoundTrip has returned", requestBodyStreams},
	{"request-body-empty", "a nil body must stay nil and http.NoBody must stay http.NoBody, or an empty body is sent chunked", requestBodyEmpty},
	{"redirect-resends-body", "http.Client must be able to send the body again after a redirect, with its length and its GetBody", redirectResendsBody},

	// The context.
	{"context-arrives", "the values and the deadline of the request's context must reach the base", contextArrives},
	{"context-over", "a request whose context is over must not be sent", contextOver},
	{"cancel-before-header", "cancelling the request's context must end RoundTrip with the cause of that context", cancelBeforeHeader},
	{"cancel-in-body", "cancelling the request's context after the header must end a Read of the body", cancelInBody},
	{"cancel-channel", "closing the request's Cancel channel must end RoundTrip", cancelChannel},
	{"client-timeout", "the Timeout of http.Client must work, and its error must be a timeout", clientTimeout},

	// Errors, and a base that breaks the contract.
	{"error-from-base", "an error of the base must reach the caller, and no response with it", errorFromBase},
	{"error-timeout", "an error of the base that is a timeout must be one for the caller of http.Client too", errorTimeout},
	{"status-no-error", "a response must be returned without an error, whatever its status", statusNoError},
	{"base-panics", "a panic of the base must reach the caller as it is, and later calls must work", basePanics},
	{"base-exits", "runtime.Goexit in the base must end the goroutine, and later calls must work", baseExits},
	{"base-nil-response", "a base that returns neither response nor error must cause no panic, and an error for http.Client", baseNilResponse},
	{"base-response-and-error", "a base that returns a response with an error must cause no panic, and the error must win", baseResponseAndError},
	{"base-nil-body", "a base that returns a nil Body must cause no panic, and what it would cause without the wrapper", baseNilBody},

	// The response.
	{"response-arrives", "status, header, length and body of the response must reach the caller", responseArrives},
	{"response-to-head", "a response to HEAD must keep its ContentLength and have an empty body", responseToHead},
	{"response-gzip", "transparent decompression must work as without the wrapper", responseGzip},
	{"response-trailer", "the trailer must be in the Response that was returned once its body has been read", responseTrailer},
	{"response-nobody", "a response body that is http.NoBody must stay http.NoBody", responseNoBody},
	{"response-switches-protocols", "the body of a 101 response must keep its methods: it is the connection", responseSwitchesProtocols},

	// Its body.
	{"body-outlives-call", "the body must be readable to its end long after RoundTrip has returned", bodyOutlivesCall},
	{"body-last-bytes", "bytes that a Read of the body returns together with io.EOF or an error count, and so does the error", bodyLastBytes},
	{"body-close-arrives", "closing the body must close that of the base", bodyCloseArrives},
	{"body-close-ends-read", "closing the body must not wait for a Read in progress, and must end it", bodyCloseEndsRead},
	{"body-writer-kept", "a response body that can be written to must stay so", bodyWriterKept},
	{"body-writer-not-gained", "a response body that cannot be written to must not seem to", bodyWriterNotGained},

	// What is left.
	{"no-goroutines-after-eof", "a response whose body was read to io.EOF must hold nothing, even if it is not closed", noGoroutinesAfterEOF},
	{"no-goroutines-after-close", "a response whose body was closed must hold nothing, even if it was not read", noGoroutinesAfterClose},
	{"close-idle-connections", "CloseIdleConnections of http.Client must reach the base, and do nothing if the base lacks it", closeIdleConnections},
	{"concurrent", "a RoundTripper must be safe for concurrent use", concurrent},
}

// run runs the rule, and says what it is if that fails.
func (r rule) run(c *contract) {
	c.Helper()
	defer func() {
		if c.Failed() {
			c.Logf("httptestutil: the rule: %s", r.text)
		}
	}()
	r.check(c)
}

// The request.

func requestUnmodified(c *contract) {
	req := c.request(http.MethodPost, "http://user:password@example.test:8080/path?query=1#fragment", emptyBody{})
	req.Header["X-Test"] = []string{"one", "two"}
	req.GetBody = func() (io.ReadCloser, error) { return emptyBody{}, nil }
	req.ContentLength = -1
	req.TransferEncoding = []string{"chunked"}
	req.Close = true
	req.Host = "host.test"
	req.Trailer = http.Header{"X-Trailer": {"value"}}
	cancelOn(req, make(chan struct{}))

	modified := watch(req)
	rt := c.wrap(base(Status(http.StatusOK, "ok")))
	c.succeed(rt, req)
	if fields := modified(); fields != nil {
		c.Fatalf("one call modified fields of the request: %v", fields)
	}

	var jobs []*job
	for range 8 {
		jobs = append(jobs, start(func() {
			for range 25 {
				if resp, err := rt.RoundTrip(req); err == nil {
					resp.Body.Close()
				}
			}
		}))
	}
	for _, j := range jobs {
		c.await(j, "a call with a request that other calls use too")
	}
	if fields := modified(); fields != nil {
		c.Errorf("calls of 8 goroutines modified fields of the request: %v", fields)
	}
}

// watch returns a function that names the fields of req that have changed since.
func watch(req *http.Request) (modified func() []string) {
	ctx := req.Context()
	before := req.Clone(ctx)
	return func() (fields []string) {
		if req.Context() != ctx {
			fields = append(fields, "Context")
		}
		was, is := reflect.ValueOf(before).Elem(), reflect.ValueOf(req).Elem()
		for i := range was.NumField() {
			if field := was.Type().Field(i); field.IsExported() && !same(was.Field(i), is.Field(i)) {
				fields = append(fields, field.Name)
			}
		}
		return fields
	}
}

func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Func {
		return a.Pointer() == b.Pointer()
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func requestArrives(c *contract) {
	const payload = "payload"
	sent := c.request(http.MethodPut, "http://example.test/path?query=1", strings.NewReader(payload))
	sent.Header["X-Test"] = []string{"one", "two"}
	sent.TransferEncoding = []string{"chunked"}
	sent.Close = true
	sent.Host = "host.test"
	sent.Trailer = http.Header{"X-Trailer": {"value"}}

	c.succeed(c.wrap(base(func(req *http.Request) (*http.Response, error) {
		c.equal("Method", req.Method, sent.Method)
		c.equal("URL", req.URL.String(), sent.URL.String())
		c.equal("Header X-Test", req.Header["X-Test"], sent.Header["X-Test"])
		c.equal("Body", content(req.Body), payload)
		c.equal("ContentLength", req.ContentLength, sent.ContentLength)
		c.equal("TransferEncoding", req.TransferEncoding, sent.TransferEncoding)
		c.equal("Close", req.Close, sent.Close)
		c.equal("Host", req.Host, sent.Host)
		c.equal("Trailer", req.Trailer, sent.Trailer)
		if req.GetBody == nil {
			c.Errorf("GetBody is nil for the base")
		} else if again, err := req.GetBody(); err != nil || content(again) != payload {
			c.Errorf("GetBody does not give the base the body again (%v)", err)
		}
		return Status(http.StatusOK, "ok")(req)
	})), sent)
}

func requestNilHeader(c *contract) {
	server := c.server(http1, func(http.ResponseWriter, *http.Request) {})
	body := newTrackedBody(strings.NewReader("payload"))
	req := c.request(http.MethodPost, server.url, body)
	req.Header = nil
	if resp, err := c.roundTrip(server.wrapped, req); err == nil {
		resp.Body.Close() // the wrapper sent a header of its own
	}
	if req.Header != nil {
		c.Errorf("the nil Header was replaced in the caller's request")
	}
	c.receive(body.closed, "Close of the request's body")
}

func requestBodyClosed(c *contract) {
	over, end := context.WithCancel(c.Context())
	end()
	ending, cancel := context.WithCancel(c.Context())
	for _, call := range []struct {
		end  string
		ctx  context.Context
		base Step
	}{
		{"a response", c.Context(), Status(http.StatusOK, "ok")},
		{"an error of the base", c.Context(), Fail(errOfBase)},
		{"a context that was over before", over, Hang()},
		{"a cancelled context", ending, func(req *http.Request) (*http.Response, error) {
			cancel()
			return Hang()(req)
		}},
	} {
		body := newTrackedBody(strings.NewReader("payload"))
		req := c.request(http.MethodPost, "http://example.test/", body).WithContext(call.ctx)
		if resp, err := c.roundTrip(c.wrap(base(call.base)), req); err == nil {
			resp.Body.Close()
		}
		c.receive(body.closed, "Close of the request's body after "+call.end)
	}
}

func requestBodyStreams(c *contract) {
	for _, s := range c.servers(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.EnableFullDuplex()
		control.Flush()
		io.Copy(w, r.Body)
	}) {
		read, write := io.Pipe()
		body := newTrackedBody(read)
		resp := s.response(s.wrapped, s.request(http.MethodPost, s.url, body))
		select {
		case <-body.closed:
			s.Errorf("the request's body was closed when RoundTrip returned")
		default:
		}
		s.within("sending the request's body after RoundTrip has returned", func() {
			io.WriteString(write, "payload")
			write.Close()
		})
		s.wantBody(resp, "payload")
		s.receive(body.closed, "Close of the request's body at its end")
	}
}

func requestBodyEmpty(c *contract) {
	server := c.server(http1, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Transfer-Encoding %v, Content-Length %v", r.TransferEncoding, r.Header["Content-Length"])
	})
	var arrived io.ReadCloser
	rt := c.wrap(base(func(req *http.Request) (*http.Response, error) {
		arrived = req.Body
		return server.transport.RoundTrip(req)
	}))
	for method, length := range map[string]string{
		http.MethodGet:    "[]",
		http.MethodDelete: "[]",
		http.MethodPost:   "[0]",
		http.MethodPut:    "[0]",
	} {
		for _, body := range []io.ReadCloser{nil, http.NoBody} {
			req := c.request(method, server.url, nil)
			req.Body = body
			resp := c.response(rt, req)
			if arrived != body {
				c.Errorf("%s: the body %#v reached the base as %#v", method, body, arrived)
			}
			c.wantBody(resp, "Transfer-Encoding [], Content-Length "+length)
		}
	}
}

func redirectResendsBody(c *contract) {
	server := c.server(http1, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a":
			http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
		case "/b":
			http.Redirect(w, r, "/c", http.StatusPermanentRedirect)
		default:
			io.Copy(w, r.Body)
		}
	})
	client := &http.Client{Transport: c.wrap(base(func(req *http.Request) (*http.Response, error) {
		c.equal("ContentLength at "+req.URL.Path, req.ContentLength, int64(len("payload")))
		c.equal("GetBody != nil at "+req.URL.Path, req.GetBody != nil, true)
		return server.transport.RoundTrip(req)
	}))}
	resp, err := c.do(client, c.request(http.MethodPost, server.url+"/a", strings.NewReader("payload")))
	if err != nil {
		c.Fatalf("http.Client returned the error %v", err)
	}
	c.wantBody(resp, "payload")
}

// The context.

func contextArrives(c *contract) {
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(c.Context(), key{}, "value"), time.Hour)
	defer cancel()
	deadline, _ := ctx.Deadline()

	c.succeed(c.wrap(base(func(req *http.Request) (*http.Response, error) {
		c.equal("value in the context", req.Context().Value(key{}), "value")
		if got, ok := req.Context().Deadline(); !ok || got.After(deadline) {
			c.Errorf("the context's deadline is %v (%t) for the base, want %v or earlier", got, ok, deadline)
		}
		return Status(http.StatusOK, "ok")(req)
	})), c.request(http.MethodGet, "http://example.test/", nil).WithContext(ctx))
}

func contextOver(c *contract) {
	var served atomic.Bool
	server := c.server(http1, func(http.ResponseWriter, *http.Request) { served.Store(true) })
	ctx, cancel := context.WithCancelCause(c.Context())
	cancel(errOfCaller)
	_, err := c.roundTrip(server.wrapped, c.request(http.MethodGet, server.url, nil).WithContext(ctx))
	c.wantError("RoundTrip", err, errOfCaller)
	c.equal("request sent", served.Load(), false)
}

func cancelBeforeHeader(c *contract) {
	ctx, cancel := context.WithCancelCause(c.Context())
	rt := c.wrap(base(func(req *http.Request) (*http.Response, error) {
		cancel(errOfCaller)
		return Hang()(req)
	}))
	_, err := c.roundTrip(rt, c.request(http.MethodGet, "http://example.test/", nil).WithContext(ctx))
	c.wantError("RoundTrip", err, errOfCaller)

	arrived, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	for _, s := range c.servers(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}) {
		ctx, cancel := context.WithCancel(s.Context())
		req := s.request(http.MethodGet, s.url, nil).WithContext(ctx)
		var err error
		call := start(func() { _, err = s.wrapped.RoundTrip(req) })
		s.receive(arrived, "arrival of the request at the server")
		cancel()
		s.await(call, "a cancelled call")
		s.wantError("RoundTrip", err, context.Canceled)
		s.receive(gone, "end of a cancelled call at the server")
	}
}

func cancelInBody(c *contract) {
	gone := make(chan struct{}, 1)
	for _, s := range c.servers(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "part")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	}) {
		ctx, cancel := context.WithCancel(s.Context())
		resp := s.response(s.wrapped, s.request(http.MethodGet, s.url, nil).WithContext(ctx))
		part := make([]byte, len("part"))
		s.within("reading the first bytes", func() { io.ReadFull(resp.Body, part) })

		var err error
		read := start(func() { _, err = resp.Body.Read(part) })
		cancel()
		s.await(read, "Read of the body of a cancelled call")
		s.wantError("Read", err, context.Canceled)
		s.receive(gone, "end of a cancelled call at the server")
		resp.Body.Close()
	}
}

func cancelChannel(c *contract) {
	cancel := make(chan struct{})
	rt := c.wrap(base(func(req *http.Request) (*http.Response, error) {
		close(cancel)
		return Hang()(req)
	}))
	req := c.request(http.MethodGet, "http://example.test/", nil)
	cancelOn(req, cancel)
	if _, err := c.roundTrip(rt, req); err == nil {
		c.Errorf("RoundTrip returned no error for a cancelled request")
	}
}

func clientTimeout(c *contract) {
	server := c.server(http1, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	client := &http.Client{Transport: server.wrapped, Timeout: 50 * time.Millisecond}
	_, err := c.do(client, c.request(http.MethodGet, server.url, nil))
	c.wantTimeout(err)
}

// Errors, and a base that breaks the contract.

func errorFromBase(c *contract) {
	resp, err := c.roundTrip(c.wrap(base(Fail(errOfBase))), c.request(http.MethodGet, "http://example.test/", nil))
	c.wantError("RoundTrip", err, errOfBase)
	c.equal("response together with an error", resp != nil, false)
}

func errorTimeout(c *contract) {
	client := &http.Client{Transport: c.wrap(base(Fail(timeoutError{})))}
	_, err := c.do(client, c.request(http.MethodGet, "http://example.test/", nil))
	c.wantTimeout(err)
}

func statusNoError(c *contract) {
	for _, code := range []int{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusFound} {
		rt := c.wrap(base(func(req *http.Request) (*http.Response, error) {
			resp, err := Status(code, "content")(req)
			resp.Header.Set("Location", "http://example.test/elsewhere")
			return resp, err
		}))
		resp, err := c.roundTrip(rt, c.request(http.MethodGet, "http://example.test/", nil))
		if err != nil {
			c.Errorf("RoundTrip returned the error %v for a response with status %d", err, code)
			continue
		}
		c.equal("StatusCode", resp.StatusCode, code)
		c.wantBody(resp, "content")
	}
}

func basePanics(c *contract) {
	value := new(int)
	rt := c.wrap(firstThen(func() { panic(value) }))
	req := c.request(http.MethodGet, "http://example.test/", nil)
	if first := c.finish(start(func() { rt.RoundTrip(req) }), "a call whose base panics"); first.panicked != value {
		c.Errorf("the panic of the base reached the caller as %v (RoundTrip returned: %t), want %v", first.panicked, first.returned, value)
	}
	c.succeed(rt, req)
}

func baseExits(c *contract) {
	rt := c.wrap(firstThen(runtime.Goexit))
	req := c.request(http.MethodGet, "http://example.test/", nil)
	if first := c.finish(start(func() { rt.RoundTrip(req) }), "a call whose base exits"); first.returned || first.panicked != nil {
		c.Errorf("runtime.Goexit in the base did not end the goroutine (RoundTrip returned: %t, panic: %v)", first.returned, first.panicked)
	}
	c.succeed(rt, req)
}

// firstThen returns a base that runs f in its first call and answers the others.
func firstThen(f func()) http.RoundTripper {
	var once sync.Once
	return base(func(req *http.Request) (*http.Response, error) {
		once.Do(f)
		return Status(http.StatusOK, "ok")(req)
	})
}

func baseNilResponse(c *contract) {
	client := &http.Client{Transport: c.wrap(base(Fail(nil)))}
	if _, err := c.do(client, c.request(http.MethodGet, "http://example.test/", nil)); err == nil {
		c.Errorf("http.Client returned no error")
	}
}

func baseResponseAndError(c *contract) {
	rt := c.wrap(base(func(req *http.Request) (*http.Response, error) {
		resp, _ := Status(http.StatusOK, "ok")(req)
		return resp, errOfBase
	}))
	// Not through http.Client, which would log that the bare base breaks the contract.
	_, err := c.roundTrip(rt, c.request(http.MethodGet, "http://example.test/", nil))
	c.wantError("RoundTrip", err, errOfBase)
}

func baseNilBody(c *contract) {
	for _, answer := range []struct {
		method string
		length int64
		valid  bool // what http.Client makes of it without the wrapper
	}{
		{http.MethodGet, 0, true},
		{http.MethodGet, -1, true},
		{http.MethodHead, 0, true},
		{http.MethodHead, -1, true},
		{http.MethodHead, 5, true},
		{http.MethodGet, 5, false},
	} {
		client := &http.Client{Transport: c.wrap(base(func(req *http.Request) (*http.Response, error) {
			resp, err := Status(http.StatusOK, "")(req)
			resp.Body, resp.ContentLength = nil, answer.length
			return resp, err
		}))}
		resp, err := c.do(client, c.request(answer.method, "http://example.test/", nil))
		got := ""
		if err == nil {
			got, err = c.readAll(resp.Body)
		}
		if got != "" || (err == nil) != answer.valid {
			c.Errorf("%s with ContentLength %d and a nil Body: content %q, error %v, want no content and an error: %t", answer.method, answer.length, got, err, !answer.valid)
		}
	}
}

// The response.

func responseArrives(c *contract) {
	for _, s := range c.servers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Test"] = []string{"one", "two"}
		io.WriteString(w, "content")
	}) {
		resp := s.response(s.wrapped, s.request(http.MethodGet, s.url, nil))
		s.equal("StatusCode", resp.StatusCode, http.StatusOK)
		s.equal("Proto", resp.Proto, s.protocol)
		s.equal("Header X-Test", resp.Header["X-Test"], []string{"one", "two"})
		s.equal("ContentLength", resp.ContentLength, int64(len("content")))
		s.equal("TLS != nil", resp.TLS != nil, s.protocol == http2)
		s.wantBody(resp, "content")
	}
}

func responseToHead(c *contract) {
	for _, s := range c.servers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1234")
	}) {
		resp := s.response(s.wrapped, s.request(http.MethodHead, s.url, nil))
		s.equal("ContentLength", resp.ContentLength, int64(1234))
		s.wantBody(resp, "")
	}
}

func responseGzip(c *contract) {
	plain := strings.Repeat("0123456789", 200)
	var zipped strings.Builder
	zip := gzip.NewWriter(&zipped)
	io.WriteString(zip, plain)
	zip.Close()

	var accepted atomic.Value
	server := c.server(http1, func(w http.ResponseWriter, r *http.Request) {
		accepted.Store(r.Header["Accept-Encoding"])
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, zipped.String())
	})

	resp := c.response(server.wrapped, c.request(http.MethodGet, server.url, nil))
	c.equal("Accept-Encoding", accepted.Load(), []string{"gzip"})
	c.equal("Uncompressed", resp.Uncompressed, true)
	c.equal("Content-Encoding", resp.Header.Get("Content-Encoding"), "")
	c.equal("ContentLength", resp.ContentLength, int64(-1))
	c.wantBody(resp, plain)

	req := c.request(http.MethodGet, server.url, nil)
	req.Header.Set("Accept-Encoding", "gzip")
	resp = c.response(server.wrapped, req)
	c.equal("Accept-Encoding of the caller", accepted.Load(), []string{"gzip"})
	c.equal("Uncompressed", resp.Uncompressed, false)
	c.equal("Content-Encoding", resp.Header.Get("Content-Encoding"), "gzip")
	c.equal("ContentLength", resp.ContentLength, int64(zipped.Len()))
	c.wantBody(resp, zipped.String())
}

func responseTrailer(c *contract) {
	for _, s := range c.servers(func(w http.ResponseWriter, r *http.Request) {
		name := http.TrailerPrefix + "Checksum" // not announced: Response.Trailer is nil at first
		if r.URL.Path == "/announced" {
			name = "Checksum"
			w.Header().Set("Trailer", name)
		}
		io.WriteString(w, "content")
		http.NewResponseController(w).Flush()
		w.Header().Set(name, "value")
	}) {
		for _, path := range []string{"/announced", "/not-announced"} {
			resp := s.response(s.wrapped, s.request(http.MethodGet, s.url+path, nil))
			s.wantBody(resp, "content")
			s.equal("Trailer of "+path, resp.Trailer, http.Header{"Checksum": {"value"}})
		}
	}
}

func responseNoBody(c *contract) {
	body := c.throughWrapper(http.StatusOK, http.NoBody)
	defer body.Close()
	if body != http.NoBody {
		c.Errorf("http.NoBody reached the caller as %T", body)
	}
}

func responseSwitchesProtocols(c *contract) {
	server := c.server(http1, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, buffered)
	})
	req := c.request(http.MethodGet, server.url, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp := c.response(server.wrapped, req)
	defer resp.Body.Close()
	c.equal("StatusCode", resp.StatusCode, http.StatusSwitchingProtocols)
	conn, ok := resp.Body.(io.Writer)
	if !ok {
		c.Fatalf("the body of a 101 response is a %T, which cannot be written to", resp.Body)
	}
	echo := make([]byte, len("hello"))
	c.within("an echo", func() {
		io.WriteString(conn, "hello")
		io.ReadFull(resp.Body, echo)
	})
	c.equal("echo", string(echo), "hello")

	closer, ok := c.throughWrapper(http.StatusSwitchingProtocols, connBody{}).(interface{ CloseWrite() error })
	if !ok {
		c.Fatalf("the body of a 101 response has lost its method CloseWrite")
	}
	c.wantError("CloseWrite", closer.CloseWrite(), errOfBase)

	readOnly := c.throughWrapper(http.StatusSwitchingProtocols, io.NopCloser(strings.NewReader("content")))
	got, _ := c.readAll(readOnly)
	c.equal("content of a 101 response that cannot be written to", got, "content")
}

// The response's body.

func bodyOutlivesCall(c *contract) {
	half := strings.Repeat("0123456789abcdef", 32<<10) // 512 KiB
	returned := make(chan struct{}, 1)
	for _, s := range c.servers(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, half)
		http.NewResponseController(w).Flush()
		select {
		case <-returned:
			io.WriteString(w, half)
		case <-r.Context().Done():
		}
	}) {
		for range 3 {
			resp := s.response(s.wrapped, s.request(http.MethodGet, s.url, nil))
			runtime.GC() // a wrapper must hold what the body needs
			returned <- struct{}{}
			got, err := s.readAll(resp.Body)
			if len(got) != 2*len(half) || err != nil {
				s.Fatalf("the body ended after %d of %d bytes (%v)", len(got), 2*len(half), err)
			}
		}
	}
}

func bodyLastBytes(c *contract) {
	for _, end := range []error{io.EOF, errOfBase} {
		body := c.throughWrapper(http.StatusOK, newTrackedBody(&abruptReader{"content", end}))
		defer body.Close()
		var got []byte
		var err error
		c.within("reading the body", func() {
			p := make([]byte, 100)
			for n := 0; err == nil; got = append(got, p[:n]...) {
				n, err = body.Read(p)
			}
		})
		c.equal("content", string(got), "content")
		c.wantError("the last Read", err, end)
		c.within("reading after the end", func() { _, err = body.Read(make([]byte, 100)) })
		c.wantError("a Read after the last", err, end)
	}
}

func bodyCloseArrives(c *contract) {
	for _, use := range []struct {
		name    string
		content io.Reader
		read    bool
	}{
		{"without a Read", strings.NewReader("content"), false},
		{"after io.EOF", strings.NewReader("content"), true},
		{"after an error", &abruptReader{"content", errOfBase}, true},
	} {
		inner := newTrackedBody(use.content)
		body := c.throughWrapper(http.StatusOK, inner)
		if use.read {
			c.readAll(body)
		}
		c.within("Close", func() { body.Close() })
		c.receive(inner.closed, "Close of the base's body "+use.name)
	}
}

func bodyCloseEndsRead(c *contract) {
	silent, end := io.Pipe()
	defer end.Close()
	inner := &signalBody{ReadCloser: silent, reading: make(chan struct{})}
	body := c.throughWrapper(http.StatusOK, inner)
	var err error
	read := start(func() { _, err = body.Read(make([]byte, 1)) })
	c.receive(inner.reading, "Read of the base's body")
	c.within("Close of a body that is being read", func() { body.Close() })
	c.await(read, "Read of a body that was closed")
	if err == nil {
		c.Errorf("Read returned no error when the body was closed")
	}
}

func bodyWriterKept(c *contract) {
	body := c.throughWrapper(http.StatusOK, connBody{})
	defer body.Close()
	writer, ok := body.(io.Writer)
	if !ok {
		c.Fatalf("a body with a method Write reached the caller as a %T without it", body)
	}
	_, err := writer.Write([]byte("content"))
	c.wantError("Write", err, errOfBase)
}

func bodyWriterNotGained(c *contract) {
	body := c.throughWrapper(http.StatusOK, newTrackedBody(strings.NewReader("content")))
	defer body.Close()
	if _, ok := body.(io.Writer); ok {
		c.Errorf("a body without a method Write reached the caller as a %T with one", body)
	}
}

// throughWrapper returns what a wrapper makes of the body of a response.
func (c *contract) throughWrapper(code int, body io.ReadCloser) io.ReadCloser {
	c.Helper()
	rt := c.wrap(base(func(req *http.Request) (*http.Response, error) {
		resp, err := Status(code, "")(req)
		resp.Body = body
		if body != http.NoBody {
			resp.ContentLength = -1
		}
		return resp, err
	}))
	return c.response(rt, c.request(http.MethodGet, "http://example.test/", nil)).Body
}

// What is left.

func noGoroutinesAfterEOF(c *contract) {
	c.leaveNoGoroutines(func(resp *http.Response) { c.readAll(resp.Body) })
}

func noGoroutinesAfterClose(c *contract) {
	c.leaveNoGoroutines(func(resp *http.Response) { resp.Body.Close() })
}

func (c *contract) leaveNoGoroutines(end func(*http.Response)) {
	c.Helper()
	const calls = 100
	server := c.server(http1, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("content", 1000))
	})
	before := settledGoroutines()
	for range calls {
		end(c.response(server.wrapped, c.request(http.MethodGet, server.url, nil)))
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(c.patience / 2) // well below a time limit of the wrapper
	for runtime.NumGoroutine() > before+calls/2 {
		select {
		case <-poll.C:
		case <-limit:
			c.Fatalf("%d calls left %d goroutines", calls, runtime.NumGoroutine()-before)
		}
	}
}

// settledGoroutines returns how many goroutines there are, once no more of them end.
func settledGoroutines() int {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for before := runtime.NumGoroutine(); ; {
		<-poll.C
		now := runtime.NumGoroutine()
		if now >= before {
			return before
		}
		before = now
	}
}

func closeIdleConnections(c *contract) {
	pool := &idlePool{RoundTripper: base(Status(http.StatusOK, ""))}
	client := &http.Client{Transport: c.wrap(pool)}
	c.within("CloseIdleConnections", client.CloseIdleConnections)
	c.equal("CloseIdleConnections of the base called", pool.closed.Load(), true)

	client.Transport = c.wrap(base(Status(http.StatusOK, "")))
	c.within("CloseIdleConnections with a base that lacks it", client.CloseIdleConnections)
}

func concurrent(c *contract) {
	server := c.server(http1, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	client := &http.Client{Transport: server.wrapped}
	var jobs []*job
	for g := range 16 {
		jobs = append(jobs, start(func() {
			for i := range 10 {
				want := fmt.Sprintf("call %d of goroutine %d", i, g)
				resp, err := client.Do(c.request(http.MethodPost, server.url, strings.NewReader(want)))
				if err != nil {
					c.Errorf("%s failed: %v", want, err)
					return
				}
				c.equal("answer", content(resp.Body), want)
				resp.Body.Close()
			}
		}))
	}
	for _, j := range jobs {
		c.await(j, "a call of 16 goroutines")
	}
}

// A contract is a subtest with what its check needs. What runs code of the wrapper
// is bounded in time and turns its panics into failures of the subtest.
type contract struct {
	testing.TB
	wrap     func(http.RoundTripper) http.RoundTripper
	patience time.Duration // for what should happen at once
	protocol string        // what it is tested over, if it matters
}

func (c *contract) Errorf(format string, args ...any) {
	c.Helper()
	c.TB.Errorf("httptestutil: %s", c.message(format, args...))
}

func (c *contract) Fatalf(format string, args ...any) {
	c.Helper()
	c.TB.Fatalf("httptestutil: %s", c.message(format, args...))
}

func (c *contract) message(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if c.protocol != "" {
		text = c.protocol + ": " + text
	}
	return text
}

func (c *contract) equal(what string, got, want any) {
	c.Helper()
	if !reflect.DeepEqual(got, want) {
		c.Errorf("%s is %.200q, want %.200q", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}

func (c *contract) wantError(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s returned the error %v, want %v", what, err, want)
	}
}

func (c *contract) wantTimeout(err error) {
	c.Helper()
	if failed := new(url.Error); !errors.As(err, &failed) || !failed.Timeout() {
		c.Errorf("http.Client returned the error %v, want one with Timeout() true", err)
	}
}

// wantBody reads the body of resp and closes it.
func (c *contract) wantBody(resp *http.Response, want string) {
	c.Helper()
	got, err := c.readAll(resp.Body)
	if err != nil {
		c.Errorf("reading the body of the response: %v", err)
	}
	c.equal("body of the response", got, want)
	c.within("Close of the body", func() { resp.Body.Close() })
}

func (c *contract) readAll(r io.Reader) (string, error) {
	c.Helper()
	var got []byte
	var err error
	c.within("reading the body", func() { got, err = io.ReadAll(r) })
	return string(got), err
}

func (c *contract) request(method, url string, body io.Reader) *http.Request {
	req, err := http.NewRequestWithContext(c.Context(), method, url, body)
	if err != nil {
		c.Fatalf("%v", err)
	}
	return req
}

// succeed fails the subtest unless rt answers req.
func (c *contract) succeed(rt http.RoundTripper, req *http.Request) {
	c.Helper()
	c.response(rt, req).Body.Close()
}

// response returns the response that rt gives to req.
func (c *contract) response(rt http.RoundTripper, req *http.Request) *http.Response {
	c.Helper()
	resp, err := c.roundTrip(rt, req)
	if err != nil {
		c.Fatalf("RoundTrip returned the error %v, want a response", err)
	}
	return resp
}

// roundTrip returns what rt makes of req: an error, or a response with a body.
func (c *contract) roundTrip(rt http.RoundTripper, req *http.Request) (resp *http.Response, err error) {
	c.Helper()
	c.within("RoundTrip", func() { resp, err = rt.RoundTrip(req) })
	if err == nil && (resp == nil || resp.Body == nil) {
		c.Fatalf("RoundTrip returned neither an error nor a response with a body")
	}
	return resp, err
}

func (c *contract) do(client *http.Client, req *http.Request) (resp *http.Response, err error) {
	c.Helper()
	c.within("Do of http.Client", func() { resp, err = client.Do(req) })
	return resp, err
}

// within runs f, which must return before patience is over.
func (c *contract) within(what string, f func()) {
	c.Helper()
	c.await(start(f), what)
}

// A job is a function that runs on a goroutine of its own.
type job struct {
	done     chan struct{}
	returned bool
	panicked any // and if this is nil too, the goroutine has exited
	stack    []byte
}

func start(f func()) *job {
	j := &job{done: make(chan struct{})}
	go func() {
		defer close(j.done)
		defer func() {
			if j.panicked = recover(); j.panicked != nil {
				j.stack = debug.Stack()
			}
		}()
		f()
		j.returned = true
	}()
	return j
}

// await waits for j, which must return.
func (c *contract) await(j *job, what string) {
	c.Helper()
	c.finish(j, what)
	if j.panicked != nil {
		c.Fatalf("%s panicked: %v\n%s", what, j.panicked, j.stack)
	}
	if !j.returned {
		c.Fatalf("%s ended its goroutine", what)
	}
}

// finish waits for j, which may return, panic or exit.
func (c *contract) finish(j *job, what string) *job {
	c.Helper()
	c.receive(j.done, what)
	return j
}

// receive waits for ch.
func (c *contract) receive(ch <-chan struct{}, what string) {
	c.Helper()
	select {
	case <-ch:
	case <-time.After(c.patience):
		c.Fatalf("waited %v in vain for: %s", c.patience, what)
	}
}

const (
	http1 = "HTTP/1.1"
	http2 = "HTTP/2.0"
)

// A loopback is a server on the loopback interface, and a contract over its protocol.
type loopback struct {
	*contract
	url       string
	transport *http.Transport
	wrapped   http.RoundTripper // around transport
}

// servers returns a server for each protocol.
func (c *contract) servers(h http.HandlerFunc) []*loopback {
	return []*loopback{c.server(http1, h), c.server(http2, h)}
}

func (c *contract) server(protocol string, h http.HandlerFunc) *loopback {
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if protocol == http2 {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	c.Cleanup(func() {
		server.CloseClientConnections() // ends handlers that a broken wrapper has left
		server.Close()
	})
	transport := server.Client().Transport.(*http.Transport)
	over := *c
	over.protocol = protocol
	return &loopback{contract: &over, url: server.URL, transport: transport, wrapped: c.wrap(transport)}
}

// A base is a RoundTripper that answers with a step and keeps the contract: it
// closes the request's body.
type base Step

func (b base) RoundTrip(req *http.Request) (*http.Response, error) {
	defer closeBody(req)
	return b(req)
}

// An idlePool is a base with CloseIdleConnections.
type idlePool struct {
	http.RoundTripper
	closed atomic.Bool
}

func (p *idlePool) CloseIdleConnections() { p.closed.Store(true) }

var (
	errOfBase   = errors.New("httptestutil: error of the base")
	errOfCaller = errors.New("httptestutil: cause of the caller")
)

type timeoutError struct{}

func (timeoutError) Error() string { return "httptestutil: timeout of the base" }
func (timeoutError) Timeout() bool { return true }

func cancelOn(req *http.Request, cancel chan struct{}) {
	//lint:ignore SA1019 callers still use the channel, http.Client among them
	req.Cancel = cancel
}

// content returns what can be read from body, which may be nil.
func content(body io.Reader) string {
	if body == nil {
		return ""
	}
	got, _ := io.ReadAll(body)
	return string(got)
}

// An emptyBody is a body that many calls can use at once.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// A trackedBody tells when it is closed, and closes its reader.
type trackedBody struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func newTrackedBody(r io.Reader) *trackedBody {
	return &trackedBody{Reader: r, closed: make(chan struct{})}
}

func (b *trackedBody) Close() error {
	b.once.Do(func() {
		close(b.closed)
		if closer, ok := b.Reader.(io.Closer); ok {
			closer.Close()
		}
	})
	return nil
}

// An abruptReader returns its last bytes together with the error that ends it.
type abruptReader struct {
	rest string
	end  error
}

func (r *abruptReader) Read(p []byte) (int, error) {
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	if r.rest == "" {
		return n, r.end
	}
	return n, nil
}

// A signalBody tells when it is read for the first time.
type signalBody struct {
	io.ReadCloser
	once    sync.Once
	reading chan struct{}
}

func (b *signalBody) Read(p []byte) (int, error) {
	b.once.Do(func() { close(b.reading) })
	return b.ReadCloser.Read(p)
}

// A connBody is an empty body with the methods of a connection, which fail.
type connBody struct{ emptyBody }

func (connBody) Write([]byte) (int, error) { return 0, errOfBase }
func (connBody) CloseWrite() error         { return errOfBase }
