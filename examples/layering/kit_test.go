package layering_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/transport"
)

// patience bounds, in real time, what should take no time worth mentioning.
const patience = 20 * time.Second

// pausesAfter returns the settings of a breaker that pauses after n failures, for
// longer than any test on real connections takes.
func pausesAfter(n int) breaker.Config {
	return breaker.Config{FailuresToEnterRecovery: n, InitialRecoveryDelay: time.Hour}
}

// newGate returns the Gate of cfg, which logs nothing if it has no Logger.
func newGate(t testing.TB, cfg transport.Config) *transport.Gate {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	gate, err := transport.New(cfg)
	require.NoError(t, err)
	return gate
}

// origin is a server on the loopback interface, and what it has seen.
type origin struct {
	*httptest.Server
	calls atomic.Int64 // requests
	conns atomic.Int64 // connections
}

// base returns the transport that reaches the origin, and trusts its certificate.
func (o *origin) base() *http.Transport { return o.Client().Transport.(*http.Transport) }

// serve starts an origin that answers with h.
type serve func(h http.HandlerFunc) *origin

func serveHTTP1(t testing.TB) serve {
	return func(h http.HandlerFunc) *origin { return start(t, 1, h, (*httptest.Server).Start) }
}

func serveHTTP2(t testing.TB) serve {
	return func(h http.HandlerFunc) *origin {
		return start(t, 2, h, func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		})
	}
}

func start(t testing.TB, protocol int, h http.HandlerFunc, begin func(*httptest.Server)) *origin {
	o := new(origin)
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.calls.Add(1)
		assert.Equal(t, protocol, r.ProtoMajor)
		h(w, r)
	}))
	o.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			o.conns.Add(1)
		}
	}
	begin(o.Server)
	t.Cleanup(o.Close)
	return o
}

// overBothProtocols runs test over HTTP/1.1, and over HTTP/2 with TLS.
func overBothProtocols(t *testing.T, test func(t *testing.T, serve serve)) {
	t.Run("HTTP1", func(t *testing.T) { test(t, serveHTTP1(t)) })
	t.Run("HTTP2", func(t *testing.T) { test(t, serveHTTP2(t)) })
}

// Handlers.

// answer answers each request with code, and a body that says so.
func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, http.StatusText(code), code)
	}
}

// hang answers nothing until the client has gone, and for no longer than patience lasts.
func hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(patience):
	}
}

// stall sends a header and the beginning of a body, and then hangs.
func stall(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, "beginning")
	http.NewResponseController(w).Flush()
	hang(w, r)
}

// breakOff sends a header and the beginning of a body, and then breaks off.
func breakOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	io.WriteString(w, "beginning")
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// switchToEcho switches protocols, and then sends back what it gets.
func switchToEcho(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	io.Copy(conn, rw)
}

// Requests.

func newRequest(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	require.NoError(t, err)
	return req
}

// newUpgrade returns a request to switch to what switchToEcho speaks.
func newUpgrade(t testing.TB, url string) *http.Request {
	req := newRequest(t, t.Context(), "GET", url, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	return req
}

// get makes a request through an http.Client, reads the answer and returns its
// status and its text.
func get(rt http.RoundTripper, url string) (int, string, error) {
	client := &http.Client{Transport: rt}
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// requireStatus makes a request and requires that its answer has the given status.
func requireStatus(t testing.TB, code int, rt http.RoundTripper, url string) {
	t.Helper()
	status, _, err := get(rt, url)
	require.NoError(t, err)
	require.Equal(t, code, status)
}

// requireEcho requires that what is written to a body comes back.
func requireEcho(t testing.TB, body io.ReadCloser) {
	t.Helper()
	conn, ok := body.(io.ReadWriteCloser)
	require.True(t, ok, "the body of a 101 response is not writable: %T", body)
	_, err := io.WriteString(conn, "hello")
	require.NoError(t, err)
	echo := make([]byte, len("hello"))
	_, err = io.ReadFull(conn, echo)
	require.NoError(t, err)
	require.Equal(t, "hello", string(echo))
}

// requireRefused requires that err is the refusal of a breaker, and returns it.
func requireRefused(t testing.TB, err error) *breaker.OpenError {
	t.Helper()
	require.ErrorIs(t, err, breaker.ErrOpen)
	var open *breaker.OpenError
	require.ErrorAs(t, err, &open)
	return open
}

// receive waits for ch.
func receive[T any](t testing.TB, ch <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-ch:
	case <-time.After(patience):
		require.FailNow(t, "waited in vain")
	}
	return got
}
