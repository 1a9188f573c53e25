package layering_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

const retries = 4

// newRetrying returns a client that makes 1 + retries attempts through base. It
// waits a millisecond between them, and then twice as long each time.
func newRetrying(base http.RoundTripper) *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: base}
	client.RetryMax = retries
	client.RetryWaitMin = time.Millisecond
	client.RetryWaitMax = time.Hour
	client.Logger = nil
	return client
}

// retrying makes a middleware of newRetrying, for below the gate.
func retrying(base http.RoundTripper) http.RoundTripper {
	return &retryablehttp.RoundTripper{Client: newRetrying(base)}
}

func TestRetryAboveDoesNotHammerARefusal(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		server := serve(answer(200))
		gate := newGate(t, transport.Config{Base: server.base(), Breaker: pausesAfter(1)})
		gate.Breaker.Fail(nil)
		client := newRetrying(gate)
		client.CheckRetry = unlessRefused

		_, err := client.Get(server.URL)
		requireRefused(t, err)
		assert.EqualValues(t, 1, gate.Breaker.Stats().Refused)

		_, _, err = get(client.StandardClient().Transport, server.URL)
		requireRefused(t, err)
		assert.EqualValues(t, 2, gate.Breaker.Stats().Refused)
		assert.Zero(t, server.calls.Load())
	})
}

// This is what the setting is for.
func TestRetryAboveWithTheDefaultPolicyHammersARefusal(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		server := serve(answer(200))
		gate := newGate(t, transport.Config{Base: server.base(), Breaker: pausesAfter(1)})
		gate.Breaker.Fail(nil)

		_, err := newRetrying(gate).Get(server.URL)
		requireRefused(t, err)
		assert.EqualValues(t, 1+retries, gate.Breaker.Stats().Refused)
		assert.Zero(t, server.calls.Load())
	})
}

func TestRetryAboveStopsWhereThePauseBegins(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		server := serve(answer(503))
		gate := newGate(t, transport.Config{Base: server.base(), Breaker: pausesAfter(3)})
		client := newRetrying(gate)
		client.CheckRetry = unlessRefused

		_, err := client.Get(server.URL)
		requireRefused(t, err)
		assert.EqualValues(t, 3, server.calls.Load())
		assert.EqualValues(t, 3, gate.Breaker.Stats().Failed)
		assert.EqualValues(t, 1, gate.Breaker.Stats().Refused)
	})
}

func TestRetryAboveResendsTheBodyAndEachAttemptCounts(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		bodies := make(chan string, 1+retries)
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies <- string(body)
			if len(bodies) < 3 {
				answer(503)(w, r)
			}
		})
		gate := newGate(t, transport.Config{Base: server.base()})
		client := newRetrying(gate)
		client.CheckRetry = unlessRefused

		resp, err := client.Post(server.URL, "text/plain", strings.NewReader("content"))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 200, resp.StatusCode)
		require.Len(t, bodies, 3)
		for range 3 {
			assert.Equal(t, "content", <-bodies)
		}
		assert.EqualValues(t, 2, gate.Breaker.Stats().Failed)
	})
}

// With Config.Wait an attempt during a pause waits for its end, and is the trial.
func TestRetryAboveWithWaitWaitsOutThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var arrivals []time.Duration
		server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrivals = append(arrivals, time.Since(began))
			if len(arrivals) <= 3 {
				answer(503)(w, r)
			}
		}))
		gate := newGate(t, transport.Config{
			Base:    server.Transport,
			Breaker: breaker.Config{FailuresToEnterRecovery: 2},
			Wait:    true,
		})
		client := newRetrying(gate)
		client.CheckRetry = unlessRefused
		client.RetryWaitMin = 100 * time.Millisecond

		resp, err := client.Get(server.URL)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 200, resp.StatusCode)
		// After 100 ms comes the second failure, and with it a pause of 2 s. The
		// trial at its end fails, so the next pause takes 4 s.
		assert.Equal(t, []time.Duration{
			0,
			100 * time.Millisecond,
			2100 * time.Millisecond,
			6100 * time.Millisecond,
		}, arrivals)
		assert.Equal(t, breaker.Closed, gate.Breaker.State())
	})
}

// With Config.Wait too, a request whose deadline lies before the end of the pause
// is refused. So the setting is needed there as well.
func TestRetryAboveWithWaitStopsWhereWaitingIsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, answer(200))
		gate := newGate(t, transport.Config{
			Base:    server.Transport,
			Breaker: breaker.Config{FailuresToEnterRecovery: 1},
			Wait:    true,
		})
		gate.Breaker.Fail(nil)
		client := newRetrying(gate)
		client.CheckRetry = unlessRefused

		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, err := retryablehttp.NewRequestWithContext(ctx, "GET", server.URL, nil)
		require.NoError(t, err)
		_, err = client.Do(req)
		requireRefused(t, err)
		assert.Zero(t, time.Since(began))

		client.CheckRetry = retryablehttp.DefaultRetryPolicy
		_, err = client.Do(req)
		requireRefused(t, err)
		assert.Equal(t, (1+2+4+8)*time.Millisecond, time.Since(began), "of vain attempts")
	})
}

func TestRetryAboveEndsItsWaitWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, answer(200))
		gate := newGate(t, transport.Config{
			Base:    server.Transport,
			Breaker: breaker.Config{FailuresToEnterRecovery: 1},
			Wait:    true,
		})
		gate.Breaker.Fail(nil)
		client := newRetrying(gate)
		client.CheckRetry = unlessRefused

		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		req, err := retryablehttp.NewRequestWithContext(ctx, "GET", server.URL, nil)
		require.NoError(t, err)
		_, err = client.Do(req)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, time.Second, time.Since(began))
		assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)
	})
}

// Below, all the attempts of a request are one for the breaker, and when they are
// used up there is an error instead of a status.
func TestRetryBelowCountsAllAttemptsOnce(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		server := serve(answer(503))
		gate := newGate(t, transport.Config{Base: retrying(server.base()), Breaker: pausesAfter(2)})
		for i := range 2 {
			_, _, err := get(gate, server.URL)
			require.ErrorContains(t, err, "giving up after 5 attempt(s)")
			assert.EqualValues(t, i+1, gate.Breaker.Stats().Failed)
		}
		assert.EqualValues(t, 2*(1+retries), server.calls.Load())

		_, _, err := get(gate, server.URL)
		requireRefused(t, err)
		assert.EqualValues(t, 2*(1+retries), server.calls.Load())
	})
}

// The errors of retryablehttp hold the URL of the request with its query. Neither
// what is logged nor the refusals that follow do.
func TestRetryBelowPutsNoURLIntoTheLog(t *testing.T) {
	const query = "?user=me%20myself&name='mine'&token=secret"
	for name, step := range map[string]httptestutil.Step{
		"status": httptestutil.Status(503, ""),
		"error":  httptestutil.Fail(io.ErrUnexpectedEOF),
	} {
		t.Run(name, func(t *testing.T) {
			steps := make([]httptestutil.Step, 2*(1+retries))
			for i := range steps {
				steps[i] = step
			}
			var log strings.Builder
			records := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))

			synctest.Test(t, func(t *testing.T) {
				gate := newGate(t, transport.Config{
					Base:    retrying(httptestutil.Script(t, steps...)),
					Breaker: breaker.Config{FailuresToEnterRecovery: 1},
					Logger:  records,
				})
				request := func() error {
					req := newRequest(t, t.Context(), "GET", "http://me:password@host.test/path"+query, nil)
					_, err := gate.RoundTrip(req)
					return err
				}
				require.ErrorContains(t, request(), "host.test/path"+query)
				refusal := request()
				requireRefused(t, refusal)
				time.Sleep(2 * time.Second)
				require.ErrorContains(t, request(), "host.test/path"+query) // the trial

				text := log.String() + refusal.Error()
				require.Contains(t, text, "sending paused")
				require.Contains(t, text, "pause lengthened")
				require.Contains(t, text, "giving up after 5 attempt(s)")
				for _, part := range []string{"http:", "host.test", "path", "user", "password", "token", "secret"} {
					assert.NotContains(t, text, part)
				}
			})
		})
	}
}

// One limit covers all the attempts, and the waits between them.
func TestRetryBelowEndsWithTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, answer(503))
		client := newRetrying(server.Transport)
		client.RetryWaitMin = time.Second
		gate := newGate(t, transport.Config{
			Base:   &retryablehttp.RoundTripper{Client: client},
			Limits: timeouts.Limits{Total: 5 * time.Second},
		})
		began := time.Now()
		_, _, err := get(gate, server.URL)
		var limit *timeouts.Error
		require.ErrorAs(t, err, &limit)
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)
	})
}
