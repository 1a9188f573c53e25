package transport_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// empty answers 200 without content: the least that a transport can do.
func empty(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: http.NoBody, Request: req}, nil
}

// netHTTP treats the context of the request as net/http does, and answers with data.
func netHTTP(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	select {
	case <-ctx.Done():
		cancel(nil)
		return nil, context.Cause(ctx)
	default:
		return &http.Response{StatusCode: 200, Body: &dataBody{64, cancel}, ContentLength: 64, Request: req}, nil
	}
}

type dataBody struct {
	left   int
	cancel context.CancelCauseFunc
}

func (b *dataBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.cancel(io.EOF)
		return 0, io.EOF
	}
	n := min(b.left, len(p))
	b.left -= n
	return n, nil
}

func (b *dataBody) Close() error {
	b.cancel(io.EOF)
	return nil
}

// use makes requests with ctx, one after the other, and reads the answers.
func use(b *testing.B, rt http.RoundTripper, ctx context.Context, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(b, err)
	buf := make([]byte, 512)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := rt.RoundTrip(req)
		for err == nil {
			_, err = resp.Body.Read(buf)
		}
		if err != io.EOF {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}

func BenchmarkClosed(b *testing.B) {
	br, err := breaker.New(breaker.Config{})
	require.NoError(b, err)
	for _, bb := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", base(empty)},
		{"gate", &transport.Gate{Base: base(empty), Breaker: br, Classify: policy.ServerErrors}},
	} {
		b.Run(bb.name, func(b *testing.B) { use(b, bb.rt, b.Context(), "http://server.example/") })
	}
}

func BenchmarkRefusal(b *testing.B) {
	gate := newGate(b, transport.Config{Base: base(httptestutil.Status(503, "")), Breaker: breaker.Config{InitialRecoveryDelay: time.Hour}})
	for range 10 {
		gate.Breaker.Fail(nil)
	}
	req := request(b, b.Context())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gate.RoundTrip(req); err == nil {
			b.Fatal("admitted")
		}
	}
}

func BenchmarkGateAndDeadline(b *testing.B) {
	cancelable, cancel := context.WithCancel(context.Background())
	defer cancel()
	bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	gate := newGate(b, transport.Config{Base: base(netHTTP), Limits: timeouts.Limits{Total: time.Hour}})
	for _, bb := range []struct {
		name string
		rt   http.RoundTripper
		ctx  context.Context
	}{
		{"bare", base(netHTTP), context.Background()},
		{"the caller cannot cancel", gate, context.Background()},
		{"the caller can cancel", gate, cancelable},
		{"the caller's deadline is earlier", gate, bounded},
	} {
		b.Run(bb.name, func(b *testing.B) { use(b, bb.rt, bb.ctx, "http://server.example/") })
	}
}

func BenchmarkLoopback(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, 512)) }))
	defer s.Close()
	for _, bb := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", s.Client().Transport},
		{"gate and deadline", newGate(b, transport.Config{Base: s.Client().Transport})},
	} {
		b.Run(bb.name, func(b *testing.B) { use(b, bb.rt, context.Background(), s.URL) })
	}
}
