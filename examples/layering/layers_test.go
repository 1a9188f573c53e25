package layering_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// layering is a Gate with what is around it (above) and what it is around (below).
type layering struct {
	name         string
	above, below transport.Middleware
}

// layerings holds both orders of each neighbour that is meant to be transparent.
// The Gate alone shows that what is required of them is no more than what is
// required of it.
var layerings = []layering{
	{"gate alone", nothing, nothing},
	{"oauth2 above", authorized, nothing},
	{"oauth2 below", nothing, authorized},
	{"otelhttp above", traced, nothing},
	{"otelhttp below", nothing, traced},
	{"otelhttp above and oauth2 below", traced, authorized},
	{"oauth2 above and otelhttp below", authorized, traced},
}

func nothing(base http.RoundTripper) http.RoundTripper { return base }

// around returns the layers, with the Gate of cfg, around base.
func (l layering) around(t testing.TB, base http.RoundTripper, cfg transport.Config) (http.RoundTripper, *transport.Gate) {
	cfg.Base = l.below(base)
	gate := newGate(t, cfg)
	return l.above(gate), gate
}

// inEachLayering runs test with each of the layerings, over each protocol.
func inEachLayering(t *testing.T, test func(t *testing.T, l layering, serve serve)) {
	for _, l := range layerings {
		t.Run(l.name, func(t *testing.T) {
			overBothProtocols(t, func(t *testing.T, serve serve) { test(t, l, serve) })
		})
	}
}

func TestCallerRequestIsLeftAsItWas(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(answer(200))
		rt, gate := l.around(t, server.base(), transport.Config{Breaker: pausesAfter(1)})
		leftAsItWas := func() {
			req := newRequest(t, t.Context(), "POST", server.URL+"/path?a=b", httptestutil.Body(t, "content"))
			req.Header.Set("X-Given", "value")
			before, header, address := *req, req.Header.Clone(), *req.URL
			if resp, err := rt.RoundTrip(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			assert.Equal(t, header, req.Header)
			assert.Same(t, before.URL, req.URL)
			assert.Equal(t, address, *req.URL)
			assert.True(t, req.Body == before.Body, "another body")
			assert.True(t, req.GetBody == nil, "a GetBody")
			assert.Equal(t, before.ContentLength, req.ContentLength)
			assert.Equal(t, before.Host, req.Host)
			assert.True(t, req.Context() == before.Context(), "another context")
		}

		leftAsItWas()
		require.EqualValues(t, 1, server.calls.Load())
		gate.Breaker.Fail(nil)
		leftAsItWas()
		require.EqualValues(t, 1, gate.Breaker.Stats().Refused)
	})
}

func TestEachAnswerIsCountedOnce(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				answer(503)(w, r)
			}
		})
		rt, gate := l.around(t, server.base(), transport.Config{})
		for range 3 {
			requireStatus(t, 503, rt, server.URL+"/bad")
			requireStatus(t, 200, rt, server.URL+"/good")
		}
		assert.EqualValues(t, 3, gate.Breaker.Stats().Failed)
		assert.EqualValues(t, 6, server.calls.Load())
	})
}

func TestRefusalIsRecognisableAndClosesTheBody(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(answer(503))
		rt, gate := l.around(t, server.base(), transport.Config{Breaker: pausesAfter(2)})
		requireStatus(t, 503, rt, server.URL)
		requireStatus(t, 503, rt, server.URL)

		body := httptestutil.Body(t, "content")
		_, err := (&http.Client{Transport: rt}).Post(server.URL, "text/plain", body)
		open := requireRefused(t, err)
		assert.Equal(t, transport.StatusError(503), open.Cause)
		assert.Positive(t, open.Remaining())
		_, err = body.Read(make([]byte, 1))
		assert.Equal(t, http.ErrBodyReadAfterClose, err, "the body is open")

		assert.EqualValues(t, 2, server.calls.Load(), "the refused request reached the server")
		assert.EqualValues(t, 1, gate.Breaker.Stats().Refused)
		assert.EqualValues(t, 2, gate.Breaker.Stats().Failed, "the refusal was counted")
	})
}

func TestResponseBodyOutlivesRoundTrip(t *testing.T) {
	half := strings.Repeat("x", 512<<10)
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		returned := make(chan struct{})
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, half)
			http.NewResponseController(w).Flush()
			select {
			case <-returned:
				io.WriteString(w, half)
			case <-r.Context().Done():
			}
		})
		limits := timeouts.Limits{Total: time.Minute, Header: time.Minute, Idle: time.Minute}
		rt, gate := l.around(t, server.base(), transport.Config{Limits: limits})

		resp, err := rt.RoundTrip(newRequest(t, t.Context(), "GET", server.URL, nil))
		require.NoError(t, err)
		defer resp.Body.Close()
		close(returned)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Len(t, body, 2*len(half))
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}

func TestBrokenBodyIsCountedOnce(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(breakOff)
		rt, gate := l.around(t, server.base(), transport.Config{})
		resp, err := (&http.Client{Transport: rt}).Get(server.URL)
		require.NoError(t, err)
		assert.Zero(t, gate.Breaker.Stats().Failed)

		body, err := io.ReadAll(resp.Body)
		assert.Equal(t, "beginning", string(body))
		require.Error(t, err)
		if resp.ProtoMajor == 1 {
			assert.Equal(t, io.ErrUnexpectedEOF, err)
		}
		resp.Body.Read(make([]byte, 1))
		resp.Body.Close()
		assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)
	})
}

func TestBodyClosedEarlyIsNotCounted(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(stall)
		rt, gate := l.around(t, server.base(), transport.Config{})
		resp, err := (&http.Client{Transport: rt}).Get(server.URL)
		require.NoError(t, err)
		_, err = io.ReadFull(resp.Body, make([]byte, len("beginning")))
		require.NoError(t, err)
		resp.Body.Close()
		_, err = resp.Body.Read(make([]byte, 1))
		assert.Error(t, err)
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}

func TestCallerCancellationIsNotCounted(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		arrived := make(chan struct{}, 1)
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			if r.URL.Path == "/stall" {
				stall(w, r)
			} else {
				hang(w, r)
			}
		})
		rt, gate := l.around(t, server.base(), transport.Config{})
		client := &http.Client{Transport: rt}

		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		_, err := client.Do(newRequest(t, ctx, "GET", server.URL+"/hang", nil))
		require.ErrorIs(t, err, context.Canceled)

		ctx, cancel = context.WithCancel(t.Context())
		resp, err := client.Do(newRequest(t, ctx, "GET", server.URL+"/stall", nil))
		require.NoError(t, err)
		defer resp.Body.Close()
		cancel()
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, context.Canceled)

		assert.EqualValues(t, 2, server.calls.Load())
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}

func TestCallerDeadlineIsCountedAndStaysTheCallers(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(hang)
		// A limit that begins only with the body is there, but is not what ends this.
		limits := timeouts.Limits{Idle: time.Millisecond}
		rt, gate := l.around(t, server.base(), transport.Config{Limits: limits})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := (&http.Client{Transport: rt}).Do(newRequest(t, ctx, "GET", server.URL, nil))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var limit *timeouts.Error
		assert.False(t, errors.As(err, &limit), "the error of a limit: %v", err)
		assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)
	})
}

func TestLimitIsRecognisableAndCountedOnce(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stall" {
				stall(w, r)
			} else {
				hang(w, r)
			}
		})
		rt, gate := l.around(t, server.base(), transport.Config{})
		client := &http.Client{Transport: rt}
		var limit *timeouts.Error

		// The context of a request brings the limits through every layer.
		header := timeouts.WithLimits(t.Context(), timeouts.Limits{Header: 50 * time.Millisecond})
		_, err := client.Do(newRequest(t, header, "GET", server.URL+"/hang", nil))
		require.ErrorAs(t, err, &limit)
		assert.Equal(t, timeouts.Error{Phase: timeouts.Header, Limit: 50 * time.Millisecond}, *limit)
		var inClient *url.Error
		require.ErrorAs(t, err, &inClient)
		assert.True(t, inClient.Timeout(), "no timeout: %v", err)
		assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)

		idle := timeouts.WithLimits(t.Context(), timeouts.Limits{Idle: 50 * time.Millisecond})
		resp, err := client.Do(newRequest(t, idle, "GET", server.URL+"/stall", nil))
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		require.ErrorAs(t, err, &limit)
		assert.Equal(t, timeouts.Error{Phase: timeouts.Idle, Limit: 50 * time.Millisecond}, *limit)
		assert.EqualValues(t, 2, gate.Breaker.Stats().Failed)
	})
}

func TestRedirectResendsTheBody(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/from" {
				http.Redirect(w, r, "/to", http.StatusTemporaryRedirect)
				return
			}
			io.Copy(w, r.Body)
		})
		rt, gate := l.around(t, server.base(), transport.Config{Classify: policy.ServerErrors})
		resp, err := (&http.Client{Transport: rt}).Post(server.URL+"/from", "text/plain", strings.NewReader("content"))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "content", string(body))
		assert.EqualValues(t, 2, server.calls.Load())
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}

func TestTrailerArrives(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		server := serve(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "content")
			http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+"Digest", "of the content")
		})
		rt, _ := l.around(t, server.base(), transport.Config{})
		resp, err := (&http.Client{Transport: rt}).Get(server.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, http.Header{"Digest": {"of the content"}}, resp.Trailer)
	})
}

func TestUpgradedConnectionStaysWritable(t *testing.T) {
	for _, l := range layerings {
		t.Run(l.name, func(t *testing.T) {
			server := serveHTTP1(t)(switchToEcho)
			rt, gate := l.around(t, server.base(), transport.Config{Classify: policy.ServerErrors})
			resp, err := (&http.Client{Transport: rt}).Do(newUpgrade(t, server.URL))
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
			requireEcho(t, resp.Body)
			assert.Zero(t, gate.Breaker.Stats().Failed)
		})
	}
}

// Neither oauth2 nor otelhttp hands CloseIdleConnections on. What is above one of
// them does not reach the pool; what is below does. So keep the Gate, or the base
// itself, to call it on.
func TestCloseIdleConnectionsEndsAtANeighbour(t *testing.T) {
	for _, l := range layerings {
		t.Run(l.name, func(t *testing.T) {
			server := serveHTTP1(t)(answer(200))
			rt, gate := l.around(t, server.base(), transport.Config{})
			client := &http.Client{Transport: rt}
			// closes reports whether closing idle connections makes the next
			// request open one.
			closes := func(closeIdle func()) bool {
				requireStatus(t, 200, rt, server.URL)
				before := server.conns.Load()
				closeIdle()
				requireStatus(t, 200, rt, server.URL)
				return server.conns.Load() > before
			}
			isOutermost := rt == http.RoundTripper(gate)
			isInnermost := l.below(server.base()) == http.RoundTripper(server.base())
			assert.Equal(t, isOutermost && isInnermost, closes(client.CloseIdleConnections), "by the client")
			assert.Equal(t, isInnermost, closes(gate.CloseIdleConnections), "by the gate")
			assert.True(t, closes(server.base().CloseIdleConnections), "by the base")
		})
	}
}

// During a pause one request is the trial, whatever the layers.
func TestManyAtOnceMakeOneTrial(t *testing.T) {
	inEachLayering(t, func(t *testing.T, l layering, serve serve) {
		held := make(chan struct{})
		release := sync.OnceFunc(func() { close(held) })
		server := serve(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				answer(503)(w, r)
				return
			}
			<-held
		})
		t.Cleanup(release)
		rt, gate := l.around(t, server.base(), transport.Config{Breaker: breaker.Config{
			FailuresToEnterRecovery: 1,
			InitialRecoveryDelay:    time.Nanosecond,
			MaxRecoveryDelay:        time.Nanosecond,
		}})
		requireStatus(t, 503, rt, server.URL+"/bad")

		const calls = 20
		results := make(chan error, calls)
		for range calls {
			go func() {
				_, _, err := get(rt, server.URL+"/trial")
				results <- err
			}()
		}
		for range calls - 1 {
			requireRefused(t, receive(t, results))
		}
		release()
		require.NoError(t, receive(t, results))
		assert.EqualValues(t, 2, server.calls.Load())
		assert.Equal(t, breaker.Closed, gate.Breaker.State())
	})
}
