package layering_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jarcoal/httpmock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

const mocked = "http://host.test/path"

// newMock returns a mock that answers at mocked.
func newMock(responder httpmock.Responder) *httpmock.MockTransport {
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder("GET", mocked, responder)
	return mock
}

func TestMockAnswersAreCounted(t *testing.T) {
	tests := []struct {
		name      string
		responder httpmock.Responder
		status    int
		err       error
		failed    int
	}{
		{"responder 200", httpmock.NewStringResponder(200, "content"), 200, nil, 0},
		{"responder 503", httpmock.NewStringResponder(503, "content"), 503, nil, 1},
		{"responder error", httpmock.NewErrorResponder(io.ErrClosedPipe), 0, io.ErrClosedPipe, 1},
		{"step 200", httptestutil.Status(200, "content"), 200, nil, 0},
		{"step 503", httptestutil.Status(503, "content"), 503, nil, 1},
		{"step fail", httptestutil.Fail(io.ErrClosedPipe), 0, io.ErrClosedPipe, 1},
		{"step truncate", httptestutil.Truncate(200, "content"), 200, io.ErrUnexpectedEOF, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			mock := newMock(test.responder)
			gate := newGate(t, transport.Config{Base: mock})
			status, body, err := get(gate, mocked)
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.status, status)
			if status != 0 {
				assert.Equal(t, "content", body)
			}
			assert.Equal(t, 1, mock.GetTotalCallCount())
			assert.EqualValues(t, test.failed, gate.Breaker.Stats().Failed)
		})
	}
}

func TestMockWithoutAResponderIsAFailure(t *testing.T) {
	gate := newGate(t, transport.Config{Base: newMock(httptestutil.Status(200, "")), Breaker: pausesAfter(2)})
	for range 2 {
		_, _, err := get(gate, "http://host.test/elsewhere")
		require.ErrorIs(t, err, httpmock.NoResponderFound)
	}
	assert.EqualValues(t, 2, gate.Breaker.Stats().Failed)
	_, _, err := get(gate, mocked)
	requireRefused(t, err)
}

// The default figures: 10 failures, a pause of 2 s, one trial that fails, a pause of
// 4 s, one that succeeds.
func TestMockShowsPausesToTheMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := httpmock.Responder(httptestutil.Status(503, "unavailable"))
		mock := newMock(failing)
		gate := newGate(t, transport.Config{Base: mock})
		requireCalls := func(n int) {
			t.Helper()
			require.Equal(t, n, mock.GetTotalCallCount())
		}
		requireRemaining := func(d time.Duration) {
			t.Helper()
			_, _, err := get(gate, mocked)
			require.Equal(t, d, requireRefused(t, err).Remaining())
		}

		for range 10 {
			requireStatus(t, 503, gate, mocked)
		}
		requireRemaining(2 * time.Second)
		time.Sleep(1999 * time.Millisecond)
		requireRemaining(time.Millisecond)
		requireCalls(10)

		time.Sleep(2 * time.Millisecond)
		requireStatus(t, 503, gate, mocked)
		requireRemaining(4 * time.Second)
		requireCalls(11)

		mock.RegisterResponder("GET", mocked, httptestutil.Status(200, "well"))
		time.Sleep(3999 * time.Millisecond)
		requireRemaining(time.Millisecond)
		time.Sleep(2 * time.Millisecond)
		requireStatus(t, 200, gate, mocked)
		requireCalls(12)
		assert.Equal(t, breaker.Closed, gate.Breaker.State())
	})
}

func TestMockEndsWithALimit(t *testing.T) {
	limits := timeouts.Limits{Header: 5 * time.Second, Idle: 7 * time.Second}
	tests := []struct {
		name      string
		responder httpmock.Responder
		want      timeouts.Error
	}{
		{"hang", httptestutil.Hang(), timeouts.Error{Phase: timeouts.Header, Limit: limits.Header}},
		{"stall", httptestutil.Stall(200, "beginning"), timeouts.Error{Phase: timeouts.Idle, Limit: limits.Idle}},
		{"delay", httpmock.NewStringResponder(200, "").Delay(6 * time.Second), timeouts.Error{Phase: timeouts.Header, Limit: limits.Header}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := newGate(t, transport.Config{Base: newMock(test.responder), Limits: limits})
				began := time.Now()
				_, _, err := get(gate, mocked)
				var got *timeouts.Error
				require.ErrorAs(t, err, &got)
				assert.Equal(t, test.want, *got)
				assert.Equal(t, test.want.Limit, time.Since(began))
				assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)
				time.Sleep(time.Minute) // until a delayed responder has ended
			})
		})
	}
}

func TestMockCancelledByTheCallerIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := newGate(t, transport.Config{Base: newMock(httptestutil.Hang())})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err := (&http.Client{Transport: gate}).Do(newRequest(t, ctx, "GET", mocked, nil))
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}
