package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/policy"
)

var errReset = errors.New("connection reset by peer")

func TestP1IgnoredIsZero(t *testing.T) {
	var o policy.Outcome
	require.Equal(t, policy.Ignored, o)
	require.Equal(t, "[ignored success failure Outcome(3)]", fmt.Sprint([]policy.Outcome{policy.Ignored, policy.Success, policy.Failure, 3}))
}

// D12, all statuses there are.
func TestP2P4Statuses(t *testing.T) {
	for _, tt := range []struct {
		name     string
		classify policy.Classifier
		good     func(status int) bool
	}{
		{"Only200", policy.Only200, func(s int) bool { return s == 200 }},
		{"ServerErrors", policy.ServerErrors, func(s int) bool { return s < 500 && s != 429 || s >= 600 }},
		{"StatusIn", policy.StatusIn(204, 304), func(s int) bool { return s == 204 || s == 304 }},
		{"StatusIn of none", policy.StatusIn(), func(int) bool { return false }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := httptest.NewRequest("GET", "/", nil)
			for status := 100; status < 700; status++ {
				want := policy.Failure
				if tt.good(status) {
					want = policy.Success
				}
				require.Equal(t, want, tt.classify(req, &http.Response{StatusCode: status}, nil), "status %d", status)
			}
			require.Equal(t, policy.Failure, tt.classify(req, nil, errReset))
			require.Equal(t, policy.Failure, tt.classify(req, nil, nil), "no answer at all")
		})
	}
	codes := []int{200}
	classify := policy.StatusIn(codes...)
	codes[0] = 500
	require.Equal(t, policy.Failure, classify(httptest.NewRequest("GET", "/", nil), &http.Response{StatusCode: 500}, nil), "the codes are the caller's to reuse")
}

func TestP3Errors(t *testing.T) {
	request := func(ctx context.Context) *http.Request {
		return httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	}
	cancelled := func(cause error) *http.Request {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return request(ctx)
	}
	legacy := func(deadline time.Duration, closed bool) *http.Request {
		ctx := t.Context()
		if deadline != 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, deadline)
			t.Cleanup(cancel)
		}
		req := request(ctx)
		ch := make(chan struct{})
		if closed {
			close(ch)
		}
		//lint:ignore SA1019 http.Client.Timeout uses it
		req.Cancel = ch
		return req
	}
	overdue, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()

	for _, tt := range []struct {
		name string
		req  *http.Request
		want policy.Outcome
	}{
		{"nobody gave up", request(t.Context()), policy.Failure},
		{"cancelled", cancelled(nil), policy.Ignored},
		{"cancelled with a cause", cancelled(errors.New("shutting down")), policy.Ignored},
		{"cancelled with a deadline as the cause", cancelled(context.DeadlineExceeded), policy.Ignored},
		{"deadline of the caller", request(overdue), policy.Failure},
		{"cancelled by the channel", legacy(0, true), policy.Ignored},
		{"cancelled by the channel before the deadline", legacy(time.Hour, true), policy.Ignored},
		{"channel not closed", legacy(0, false), policy.Failure},
		{"channel closed at the deadline", legacy(-time.Second, true), policy.Failure},
		{"channel closed at the deadline, which the context has not noticed",
			func() *http.Request {
				req := legacy(0, true)
				return req.WithContext(sleepy{t.Context(), time.Now().Add(-time.Nanosecond)})
			}(), policy.Failure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, classify := range []policy.Classifier{policy.Only200, policy.ServerErrors, policy.StatusIn(500)} {
				// Whatever the error is or says: it is not looked at.
				for _, err := range []error{errReset, context.Canceled, context.DeadlineExceeded, fmt.Errorf("net/http: request canceled")} {
					assert.Equal(t, tt.want, classify(tt.req, nil, err), "%v", err)
				}
			}
			// An answer that arrived all the same is an answer.
			assert.Equal(t, policy.Success, policy.Only200(tt.req, &http.Response{StatusCode: 200}, nil))
		})
	}
}

// sleepy has a deadline that is over and has not ended it yet.
type sleepy struct {
	context.Context
	deadline time.Time
}

func (s sleepy) Deadline() (time.Time, bool) { return s.deadline, true }

// The channel that http.Client.Timeout closes is never closed before the deadline
// that it puts into the context.
func TestP3ClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outcome policy.Outcome
		client := &http.Client{Timeout: time.Second, Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			//lint:ignore SA1019 http.Client.Timeout uses it
			<-req.Cancel
			outcome = policy.Only200(req, nil, errReset)
			return nil, errReset
		})}
		_, err := client.Get("http://server.example/")
		require.Error(t, err)
		require.Equal(t, policy.Failure, outcome)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func ExampleClassifier() {
	notFoundIsAnAnswer := func(req *http.Request, resp *http.Response, err error) policy.Outcome {
		if err == nil && resp.StatusCode == http.StatusNotFound {
			return policy.Success
		}
		return policy.Only200(req, resp, err)
	}
	req := httptest.NewRequest("GET", "/", nil)
	fmt.Println(notFoundIsAnAnswer(req, &http.Response{StatusCode: 404}, nil))
	fmt.Println(notFoundIsAnAnswer(req, &http.Response{StatusCode: 403}, nil))
	// Output:
	// success
	// failure
}

func BenchmarkOnly200(b *testing.B) {
	req, resp := httptest.NewRequest("GET", "/", nil), &http.Response{StatusCode: 200}
	b.ReportAllocs()
	for b.Loop() {
		policy.Only200(req, resp, nil)
	}
}
