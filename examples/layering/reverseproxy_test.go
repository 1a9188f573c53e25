package layering_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// newProxy returns a proxy for the server at the given address.
func newProxy(t testing.TB, address string, rt http.RoundTripper) *httputil.ReverseProxy {
	target, err := url.Parse(address)
	require.NoError(t, err)
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: rt,
		ErrorLog:  log.New(io.Discard, "", 0),
	}
}

// behindAProxy starts a backend that answers with h and a proxy in front of it, both
// with the same protocol, and returns the proxy's address and a client for it.
func behindAProxy(t testing.TB, serve serve, cfg transport.Config, h http.HandlerFunc, settings ...func(*httputil.ReverseProxy)) (*transport.Gate, *http.Client, string) {
	backend := serve(h)
	cfg.Base = backend.base()
	gate := newGate(t, cfg)
	proxy := newProxy(t, backend.URL, gate)
	for _, set := range settings {
		set(proxy)
	}
	front := serve(proxy.ServeHTTP)
	return gate, front.Client(), front.URL
}

func TestProxyPassesRequestsAndAnswers(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		gate, client, address := behindAProxy(t, serve, transport.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Path", r.URL.Path)
			io.WriteString(w, "content")
			http.NewResponseController(w).Flush()
			w.Header().Set(http.TrailerPrefix+"Digest", "of the content")
		})
		resp, err := client.Get(address + "/path")
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, "content", string(body))
		assert.Equal(t, "/path", resp.Header.Get("X-Path"))
		assert.Equal(t, "of the content", resp.Trailer.Get("Digest"))
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}

func TestProxyPassesAnUpgrade(t *testing.T) {
	limits := timeouts.Limits{Total: time.Minute, Header: time.Minute, Idle: time.Minute}
	gate, client, address := behindAProxy(t, serveHTTP1(t),
		transport.Config{Limits: limits, Classify: policy.ServerErrors}, switchToEcho)
	resp, err := client.Do(newUpgrade(t, address))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	requireEcho(t, resp.Body)
	assert.Zero(t, gate.Breaker.Stats().Failed)
}

func TestProxyPassesAWebSocket(t *testing.T) {
	gate, client, address := behindAProxy(t, serveHTTP1(t), transport.Config{Classify: policy.ServerErrors}, echoMessages)
	conn, err := dial(t.Context(), client.Transport, address)
	require.NoError(t, err)
	requireMessageBack(t, conn, "hello")
	require.NoError(t, conn.Close(websocket.StatusNormalClosure, ""))
	assert.Zero(t, gate.Breaker.Stats().Failed)
}

// The backend goes on only once the client of the proxy has what it sent before.
func TestProxyFlushesAStream(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		arrived := make(chan struct{})
		gate, client, address := behindAProxy(t, serve, transport.Config{}, func(w http.ResponseWriter, r *http.Request) {
			for range 3 {
				io.WriteString(w, "line\n")
				http.NewResponseController(w).Flush()
				select {
				case <-arrived:
				case <-r.Context().Done():
					return
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		resp, err := client.Do(newRequest(t, ctx, "GET", address, nil))
		require.NoError(t, err)
		defer resp.Body.Close()
		for range 3 {
			line := make([]byte, len("line\n"))
			_, err := io.ReadFull(resp.Body, line)
			require.NoError(t, err)
			require.Equal(t, "line\n", string(line))
			arrived <- struct{}{}
		}
		_, err = resp.Body.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}

// By default a whole response has 60 s, also one that goes on and on.
func TestProxyStreamsForHoursWithoutATotalLimit(t *testing.T) {
	for _, test := range []struct {
		name  string
		total time.Duration
		lines int
	}{{"negative", -1, 1000}, {"default", 0, 9}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					for range 1000 { // for nearly two hours
						if _, err := io.WriteString(w, "line\n"); err != nil {
							return
						}
						http.NewResponseController(w).Flush()
						time.Sleep(7 * time.Second)
					}
				}))
				gate := newGate(t, transport.Config{Base: server.Transport, Limits: timeouts.Limits{Total: test.total}})
				w := httptest.NewRecorder()
				newProxy(t, server.URL, gate).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				assert.Equal(t, test.lines, strings.Count(w.Body.String(), "line\n"))
			})
		})
	}
}

func TestProxyPassesEarlyHints(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		_, client, address := behindAProxy(t, serve, transport.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
		})
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
				assert.Equal(t, http.StatusEarlyHints, code)
				hints = append(hints, header.Get("Link"))
				return nil
			},
		})
		resp, err := client.Do(newRequest(t, ctx, "GET", address, nil))
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 200, resp.StatusCode)
		assert.Equal(t, []string{"</style.css>; rel=preload"}, hints)
	})
}

func TestProxyAnswersARefusal(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		t.Run("502 by default", func(t *testing.T) {
			gate, client, address := behindAProxy(t, serve, transport.Config{Breaker: pausesAfter(1)}, answer(200))
			requireStatus(t, 200, client.Transport, address)
			gate.Breaker.Fail(nil)
			requireStatus(t, 502, client.Transport, address)
			assert.EqualValues(t, 1, gate.Breaker.Stats().Refused)
		})
		t.Run("503 with the handler", func(t *testing.T) {
			gate, client, address := behindAProxy(t, serve, transport.Config{Breaker: pausesAfter(1)}, answer(200),
				func(p *httputil.ReverseProxy) { p.ErrorHandler = unavailable })
			gate.Breaker.Fail(nil)
			resp, err := client.Get(address)
			require.NoError(t, err)
			resp.Body.Close()
			assert.Equal(t, 503, resp.StatusCode)
			seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			require.NoError(t, err)
			assert.LessOrEqual(t, seconds, 3600)
			assert.Greater(t, seconds, 3000)
		})
	})
}

func TestProxyTellsWhenToComeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, http.HandlerFunc(hang))
		gate := newGate(t, transport.Config{
			Base:    server.Transport,
			Limits:  timeouts.Limits{Total: 10 * time.Second},
			Breaker: breaker.Config{FailuresToEnterRecovery: 1, InitialRecoveryDelay: 5 * time.Second},
		})
		proxy := newProxy(t, server.URL, gate)
		proxy.ErrorHandler = unavailable
		request := func() *http.Response {
			w := httptest.NewRecorder()
			proxy.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w.Result()
		}
		requireComeAgain := func(seconds string) {
			t.Helper()
			resp := request()
			assert.Equal(t, 503, resp.StatusCode)
			assert.Equal(t, seconds, resp.Header.Get("Retry-After"))
		}

		resp := request() // the limit is no refusal
		require.Equal(t, 502, resp.StatusCode)
		require.Empty(t, resp.Header.Get("Retry-After"))
		requireComeAgain("5")
		time.Sleep(2001 * time.Millisecond)
		requireComeAgain("3")
		time.Sleep(2998 * time.Millisecond)
		requireComeAgain("1")

		time.Sleep(time.Millisecond)
		go request() // the trial
		synctest.Wait()
		requireComeAgain("1")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		requireComeAgain("10")
	})
}

// A visitor who leaves says nothing about the backend.
func TestProxyDoesNotCountAVisitorWhoLeaves(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		arrived, failed := make(chan struct{}, 1), make(chan error, 1)
		gate, client, address := behindAProxy(t, serve, transport.Config{},
			func(w http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				hang(w, r)
			},
			func(p *httputil.ReverseProxy) {
				p.ErrorHandler = func(_ http.ResponseWriter, _ *http.Request, err error) { failed <- err }
			})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		_, err := client.Do(newRequest(t, ctx, "GET", address, nil))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, receive(t, failed), context.Canceled)
		assert.Zero(t, gate.Breaker.Stats().Failed)
	})
}

func TestProxyCountsABackendThatBreaksOff(t *testing.T) {
	overBothProtocols(t, func(t *testing.T, serve serve) {
		gate, client, address := behindAProxy(t, serve, transport.Config{}, breakOff,
			func(p *httputil.ReverseProxy) { p.FlushInterval = -1 })
		resp, err := client.Get(address)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		assert.Error(t, err, "the visitor takes it for the whole")
		assert.Equal(t, "beginning", string(body))
		assert.EqualValues(t, 1, gate.Breaker.Stats().Failed)
	})
}
