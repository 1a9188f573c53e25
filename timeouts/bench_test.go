package timeouts_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/respitehttp/respite/timeouts"
)

// answer is a base that answers 200 with 64 bytes, and treats the context of the
// request as net/http does.
type answer struct{}

type answerBody struct {
	left   int
	cancel context.CancelCauseFunc
}

var errDone = errors.New("done")

func (answer) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	select {
	case <-ctx.Done():
		cancel(errDone)
		return nil, context.Cause(ctx)
	default:
		return &http.Response{StatusCode: 200, Body: &answerBody{64, cancel}, ContentLength: 64, Request: req}, nil
	}
}

func (b *answerBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		b.cancel(errDone)
		return 0, io.EOF
	}
	n := min(b.left, len(p))
	b.left -= n
	return n, nil
}

func (b *answerBody) Close() error {
	b.cancel(errDone)
	return nil
}

func BenchmarkRoundTrip(b *testing.B) {
	cancelable, cancel := context.WithCancel(context.Background())
	defer cancel()
	bounded, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, bb := range []struct {
		name   string
		limits timeouts.Limits
		ctx    context.Context
	}{
		{"bare", timeouts.Limits{}, context.Background()},
		{"total", timeouts.Limits{Total: time.Hour}, context.Background()},
		{"total, the caller can cancel", timeouts.Limits{Total: time.Hour}, cancelable},
		{"total, the caller's deadline is before it", timeouts.Limits{Total: time.Hour}, bounded},
		{"total, header and idle", timeouts.Limits{Total: time.Hour, Header: time.Minute, Idle: time.Minute}, context.Background()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var rt http.RoundTripper = &timeouts.Transport{Base: answer{}, Limits: bb.limits}
			req, _ := http.NewRequestWithContext(bb.ctx, "GET", "http://server.example/", nil)
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
		})
	}
}
