package leaserenewal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/examples/leaserenewal"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/transport"
)

var expiry = time.Date(2030, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))

// L7: the request is a JSON merge patch of the expiry alone, with the bearer token of
// this moment.
func TestL7Request(t *testing.T) {
	for _, test := range []struct{ field, want string }{
		{"", `{"spec":{"shutdownTime":"2030-01-02T02:04:05.000000678Z"}}`},
		{"spec.shutdownTime", `{"spec":{"shutdownTime":"2030-01-02T02:04:05.000000678Z"}}`},
		{"spec.lifecycle.shutdownTime", `{"spec":{"lifecycle":{"shutdownTime":"2030-01-02T02:04:05.000000678Z"}}}`},
		{"expiry", `{"expiry":"2030-01-02T02:04:05.000000678Z"}`},
		{`we"ird. key`, `{"we\"ird":{" key":"2030-01-02T02:04:05.000000678Z"}}`},
	} {
		t.Run(test.field, func(t *testing.T) {
			asked := 0
			var tokens []string
			base := func(req *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(req.Body)
				assert.NoError(t, err)
				assert.Equal(t, test.want, string(body))
				assert.Equal(t, http.MethodPatch, req.Method)
				assert.Equal(t, "https://api.example.com/x/y?z=1", req.URL.String())
				assert.Equal(t, "application/merge-patch+json", req.Header.Get("Content-Type"))
				assert.Equal(t, "application/json", req.Header.Get("Accept"))
				assert.EqualValues(t, len(body), req.ContentLength)
				tokens = append(tokens, req.Header.Get("Authorization"))
				return httptestutil.Status(200, "{}")(req)
			}
			renew := leaserenewal.Patch(
				&http.Client{Transport: httptestutil.Script(t, base, base)},
				leaserenewal.Object{
					URL:         "https://api.example.com/x/y?z=1",
					ExpiryField: test.field,
					Token: func(context.Context) (string, error) {
						asked++
						return strings.Repeat("t", asked), nil
					},
				})
			require.NoError(t, renew(t.Context(), expiry))
			require.NoError(t, renew(t.Context(), expiry))
			assert.Equal(t, []string{"Bearer t", "Bearer tt"}, tokens)
		})
	}
}

// L7: without a Token there is no Authorization, but that of the URL.
func TestL7NoToken(t *testing.T) {
	for url, want := range map[string]string{"http://api.example.com/x": "", "http://user:secret@api.example.com/x": "Basic dXNlcjpzZWNyZXQ="} {
		renew := leaserenewal.Patch(&http.Client{Transport: httptestutil.Script(t, func(req *http.Request) (*http.Response, error) {
			assert.Equal(t, want, req.Header.Get("Authorization"))
			return httptestutil.Status(204, "")(req)
		})}, leaserenewal.Object{URL: url})
		assert.NoError(t, renew(t.Context(), expiry))
	}
}

// L7: without a token to be had, nothing is sent.
func TestL7TokenFails(t *testing.T) {
	for want, token := range map[string]func(context.Context) (string, error){
		"leaserenewal: Object.Token failed: server is down":                                                             func(context.Context) (string, error) { return "t", errDown },
		"leaserenewal: Object.Token returned an empty token; accepted: visible ASCII":                                   func(context.Context) (string, error) { return "", nil },
		"leaserenewal: Object.Token returned a token with byte 3 (of 4) outside visible ASCII; accepted: visible ASCII": func(context.Context) (string, error) { return "abc\n", nil },
		"leaserenewal: Object.Token returned a token with byte 0 (of 4) outside visible ASCII; accepted: visible ASCII": func(context.Context) (string, error) { return " abc", nil },
		"leaserenewal: Object.Token returned a token with byte 1 (of 3) outside visible ASCII; accepted: visible ASCII": func(context.Context) (string, error) { return "aä", nil },
		"leaserenewal: Object.Token failed: Get [redacted]: EOF": func(context.Context) (string, error) {
			_, err := (&http.Client{Transport: httptestutil.Script(t, httptestutil.Fail(io.EOF))}).Get("http://sts/?secret=1")
			return "", err
		},
	} {
		renew := leaserenewal.Patch(&http.Client{Transport: httptestutil.Script(t)},
			leaserenewal.Object{URL: "http://api.example.com/x", Token: token})
		assert.EqualError(t, renew(t.Context(), expiry), want)
	}
}

// L4, L7: 2xx is success, 404 and 410 are gone, and every other status, redirects
// included, is an error that carries it. No redirect is followed.
func TestL7Statuses(t *testing.T) {
	for code := 200; code < 600; code++ {
		renew := leaserenewal.Patch(
			&http.Client{Transport: httptestutil.Script(t, func(req *http.Request) (*http.Response, error) {
				resp, err := httptestutil.Status(code, "why")(req)
				resp.Header.Set("Location", []string{"http://elsewhere.example.com/", "http://no%zzhost/"}[code%2])
				return resp, err
			})},
			leaserenewal.Object{URL: "http://api.example.com/x"})
		err := renew(t.Context(), expiry)
		if code < 300 {
			require.NoError(t, err, code)
			continue
		}
		var status *leaserenewal.StatusError
		require.ErrorAs(t, err, &status, code)
		require.Equal(t, code, status.Code)
		require.Equal(t, code == 404 || code == 410, errors.Is(err, leaserenewal.ErrGone), code)
	}
}

// L7: the client that was given keeps its own way with redirects.
func TestL7ClientIsNotChanged(t *testing.T) {
	client := &http.Client{Transport: httptestutil.Script(t, httptestutil.Status(200, ""))}
	renew := leaserenewal.Patch(client, leaserenewal.Object{URL: "http://api.example.com/x"})
	require.NoError(t, renew(t.Context(), expiry))
	assert.Nil(t, client.CheckRedirect)
}

// L7: the error of an answer carries the status and the first 500 characters.
func TestL7ErrorCarriesTheAnswer(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"none":    {"", ""},
		"short":   {"no such\nluck", "no such\nluck"},
		"exact":   {strings.Repeat("x", 500), strings.Repeat("x", 500)},
		"long":    {strings.Repeat("x", 501), strings.Repeat("x", 500)},
		"unicode": {strings.Repeat("€", 501), strings.Repeat("€", 500)},
		"invalid": {"\xff\xfe", "\uFFFD\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			renew := leaserenewal.Patch(&http.Client{Transport: httptestutil.Script(t, httptestutil.Status(503, test.body))},
				leaserenewal.Object{URL: "http://api.example.com/x"})
			err := renew(t.Context(), expiry)
			var status *leaserenewal.StatusError
			require.ErrorAs(t, err, &status)
			assert.Equal(t, test.want, status.Answer)
			assert.Equal(t, 503, status.Code)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestStatusErrorText(t *testing.T) {
	assert.EqualError(t, &leaserenewal.StatusError{Code: 409, Answer: "it\nchanged"}, `status 409 Conflict, answer "it\nchanged"`)
	assert.EqualError(t, &leaserenewal.StatusError{Code: 599}, `status 599, answer ""`)
}

// L7: an answer that breaks off is still the answer.
func TestL7BrokenAnswer(t *testing.T) {
	renew := leaserenewal.Patch(&http.Client{Transport: httptestutil.Script(t,
		httptestutil.Truncate(500, "half"), httptestutil.Truncate(200, "half"),
	)}, leaserenewal.Object{URL: "http://api.example.com/x"})
	assert.EqualError(t, renew(t.Context(), expiry), `leaserenewal: patch of http://api.example.com/x: status 500 Internal Server Error, answer "half"`)
	assert.NoError(t, renew(t.Context(), expiry))
}

// L7: an answer is closed, whatever it is, and how long.
func TestL7AnswerIsClosed(t *testing.T) {
	for _, code := range []int{200, 204, 302, 404, 503} {
		for _, size := range []int{0, 10, 1 << 20} {
			renew := leaserenewal.Patch(&http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: code, Body: httptestutil.Body(t, strings.Repeat("x", size)), Request: req}, nil
			})}, leaserenewal.Object{URL: "http://api.example.com/x"})
			assert.Equal(t, code < 300, renew(t.Context(), expiry) == nil)
		}
	}
}

// The fault of an Object is told by Validate, and by each renewal if nobody asked.
func TestObjectValidate(t *testing.T) {
	const (
		isURL    = "; accepted: an http or https URL with a host"
		badField = "; accepted: keys separated by dots, such as spec.lifecycle.shutdownTime, or empty for spec.shutdownTime"
	)
	for _, test := range []struct {
		obj  leaserenewal.Object
		want string
	}{
		{leaserenewal.Object{}, `leaserenewal: Object.URL is empty` + isURL},
		{leaserenewal.Object{URL: "api.example.com/x"}, `leaserenewal: Object.URL is not an absolute URL` + isURL},
		{leaserenewal.Object{URL: "/x"}, `leaserenewal: Object.URL is not an absolute URL` + isURL},
		{leaserenewal.Object{URL: "ftp://api.example.com/x"}, `leaserenewal: Object.URL has the scheme "ftp"` + isURL},
		{leaserenewal.Object{URL: "http:///x"}, `leaserenewal: Object.URL has no host` + isURL},
		{leaserenewal.Object{URL: "http://user:secret@api.example.com:port/"}, `leaserenewal: Object.URL is not a URL (it is not shown, since it may hold a password)` + isURL},
		{leaserenewal.Object{URL: "http://h/", ExpiryField: "."}, `leaserenewal: Object.ExpiryField is "."` + badField},
		{leaserenewal.Object{URL: "http://h/", ExpiryField: "spec."}, `leaserenewal: Object.ExpiryField is "spec."` + badField},
		{leaserenewal.Object{URL: "http://h/", ExpiryField: "a..b"}, `leaserenewal: Object.ExpiryField is "a..b"` + badField},
		{leaserenewal.Object{URL: "http://h/", ExpiryField: "a\xff"}, `leaserenewal: Object.ExpiryField is "a\xff"` + badField},
		{leaserenewal.Object{ExpiryField: ".x"}, "leaserenewal: Object.URL is empty" + isURL + "\n" + `leaserenewal: Object.ExpiryField is ".x"` + badField},
	} {
		assert.EqualError(t, test.obj.Validate(), test.want)
		renew := leaserenewal.Patch(&http.Client{Transport: httptestutil.Script(t)}, test.obj)
		assert.EqualError(t, renew(t.Context(), expiry), test.want)
	}
	assert.NoError(t, leaserenewal.Object{URL: "https://h"}.Validate())
}

// A nil client is http.DefaultClient.
func TestNilClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	assert.NoError(t, leaserenewal.Patch(nil, leaserenewal.Object{URL: server.URL})(t.Context(), expiry))
}

// L3: the error of a request is still what it was: the caller can see a timeout, a
// cancellation, a refusal.
func TestL7RequestErrors(t *testing.T) {
	for _, cause := range []error{context.DeadlineExceeded, breaker.ErrOpen, net.ErrClosed} {
		renew := leaserenewal.Patch(&http.Client{Transport: httptestutil.Script(t, httptestutil.Fail(cause))},
			leaserenewal.Object{URL: "http://user:secret@api.example.com/x%2Fy?token=abc123"})
		err := renew(t.Context(), expiry)
		assert.ErrorIs(t, err, cause)
		assert.EqualError(t, err, "leaserenewal: patch of http://api.example.com/x%2Fy: "+cause.Error())
	}
}

// D49: the loop over HTTP ends at a 404 or a 410, and the shared breaker counts no
// failure for it.
func TestD49GoneOverHTTP(t *testing.T) {
	for _, code := range []int{404, 410} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if requests++; requests == 2 {
					w.WriteHeader(code)
				}
			}))
			gate, err := transport.New(transport.Config{
				Base:     server.Transport,
				Classify: policy.ServerErrors,
				Breaker:  leaserenewal.BreakerConfig(time.Minute),
			})
			require.NoError(t, err)
			gone := 0
			r, err := leaserenewal.New(leaserenewal.Config{
				TTL:    time.Minute,
				Renew:  leaserenewal.Patch(&http.Client{Transport: gate}, leaserenewal.Object{URL: server.URL}),
				OnGone: func() { gone++ },
			})
			require.NoError(t, err)

			assert.Equal(t, leaserenewal.ErrGone, r.Run(t.Context()))
			server.Transport.CloseIdleConnections()
			time.Sleep(time.Hour)
			assert.Equal(t, 1, gone)
			assert.Equal(t, 2, requests)
			assert.Zero(t, gate.Breaker.Stats().Failed)
		})
	}
}

// D48, L3: an attempt that the server keeps waiting is a failure for the breaker; one
// that the end of Run cuts off is not.
func TestBreakerSeesTheDeadlineOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		gate, err := transport.New(transport.Config{Base: server.Transport, Classify: policy.ServerErrors, Breaker: leaserenewal.BreakerConfig(time.Minute)})
		require.NoError(t, err)
		patch := leaserenewal.Patch(&http.Client{Transport: gate}, leaserenewal.Object{URL: server.URL})
		l := keep(t, time.Minute, func(ctx context.Context, _ int) error { return patch(ctx, time.Now()) })
		time.Sleep(55 * time.Second) // in the middle of the third attempt, or so
		l.stop()
		assert.EqualValues(t, len(l.errs), gate.Breaker.Stats().Failed)
		for _, err := range l.errs {
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
}

// D24: small error answers are read, so that all attempts use one connection.
func TestD24ErrorAnswersKeepTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests, connections := 0, 0
		server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests <= 5 {
				w.WriteHeader(http.StatusServiceUnavailable)
				w.Write(make([]byte, 10<<10))
			}
		}))
		gate, err := transport.New(transport.Config{
			Base: server.Transport, Classify: policy.ServerErrors, Breaker: breaker.Config{FailuresToEnterRecovery: 100},
		})
		require.NoError(t, err)
		patch := leaserenewal.Patch(&http.Client{Transport: gate}, leaserenewal.Object{URL: server.URL})
		ctx, cancel := context.WithCancel(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(c httptrace.GotConnInfo) {
				if !c.Reused {
					connections++
				}
			},
		}))
		r, err := leaserenewal.New(leaserenewal.Config{
			TTL: time.Minute,
			Renew: func(ctx context.Context, expiry time.Time) error {
				err := patch(ctx, expiry)
				if err == nil {
					cancel()
				}
				return err
			},
		})
		require.NoError(t, err)
		assert.Equal(t, context.Canceled, r.Run(ctx))
		assert.Equal(t, 6, requests)
		assert.Equal(t, 1, connections)
	})
}

// D61: an error answer that never ends, or drips, is cut off, and the server could write
// no more than 1 MiB. (When it is, the next test tells to the nanosecond.)
func TestD61EndlessErrorAnswers(t *testing.T) {
	for name, piece := range map[string]struct {
		size  int
		pause time.Duration
	}{"flood": {64 << 10, 0}, "drip": {1, time.Second}} {
		t.Run(name, func(t *testing.T) {
			var written atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
				for r.Context().Err() == nil {
					n, err := w.Write(bytes.Repeat([]byte("x"), piece.size))
					if written.Add(int64(n)); err != nil || http.NewResponseController(w).Flush() != nil {
						return
					}
					if piece.pause > 0 {
						select {
						case <-time.After(piece.pause):
						case <-r.Context().Done():
						}
					}
				}
			}))
			// Else the kernel takes megabytes of the server that nobody will read.
			server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
				conn.(*net.TCPConn).SetWriteBuffer(64 << 10)
				return ctx
			}
			server.Start()
			defer server.Close()
			err := leaserenewal.Patch(server.Client(), leaserenewal.Object{URL: server.URL})(t.Context(), expiry)
			var status *leaserenewal.StatusError
			require.ErrorAs(t, err, &status)
			assert.Equal(t, 503, status.Code)
			server.CloseClientConnections()
			server.Close() // waits for the handler
			t.Logf("written %d", written.Load())
			assert.LessOrEqual(t, written.Load(), int64(1<<20))
		})
	}
}

// D61: in exact time, and the next attempt is scheduled normally.
func TestD61DripIsCutAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			for r.Context().Err() == nil {
				io.WriteString(w, "x")
				http.NewResponseController(w).Flush()
				time.Sleep(300 * time.Millisecond)
			}
		}))
		patch := leaserenewal.Patch(server.Client(), leaserenewal.Object{URL: server.URL})
		l := keep(t, time.Minute, func(ctx context.Context, _ int) error { return patch(ctx, expiry) })
		time.Sleep(59 * time.Second)
		l.stop()
		require.Greater(t, len(l.errs), 5)
		assert.ErrorContains(t, l.errs[0], `answer "xxxx"`)
		assert.Equal(t, time.Second, l.settled[0]-l.attempts[0])
		assertWithin(t, 900*time.Millisecond, time.Second, l.gaps()[0], "the first retry")
		assertWithin(t, 1800*time.Millisecond, 2*time.Second, l.gaps()[1], "the second retry")
	})
}

// L3, L4: a status that has arrived counts, also where the rest of the answer does not
// come before the deadline of the attempt.
func TestL3AnswerThatStalls(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}))
			unexpected := func() { t.Error("lost") }
			gone := 0
			renewal, err := leaserenewal.New(leaserenewal.Config{
				TTL:     4 * time.Second, // so an attempt may take half a second
				Renew:   leaserenewal.Patch(server.Client(), leaserenewal.Object{URL: server.URL}),
				OnGone:  func() { gone++ },
				OnLost:  unexpected,
				OnError: func(err error) { t.Error(err) },
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err = renewal.Run(ctx)
			if status == http.StatusOK {
				require.Equal(t, context.DeadlineExceeded, err)
				require.Zero(t, gone)
			} else {
				require.Equal(t, leaserenewal.ErrGone, err)
				require.Equal(t, 1, gone)
			}
		})
	}
}

// D59: neither an error nor a record of the breaker holds a secret, even if the server
// repeats the whole request.
func TestD59NoSecrets(t *testing.T) {
	for name, step := range map[string]httptestutil.Step{
		"status":  httptestutil.Status(503, "no"),
		"refused": httptestutil.Fail(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}),
		"silent":  httptestutil.Hang(),
		"echo": func(req *http.Request) (*http.Response, error) {
			dump, err := httputil.DumpRequestOut(req, false)
			assert.NoError(t, err)
			assert.Contains(t, string(dump), "abc123")
			assert.Contains(t, string(dump), "xyz789")
			return httptestutil.Status(503, string(dump)+" of user:secret")(req)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				cfg := leaserenewal.BreakerConfig(time.Minute)
				cfg.FailuresToEnterRecovery = 1
				gate, err := transport.New(transport.Config{
					Base:     roundTripper(step),
					Classify: policy.ServerErrors,
					Breaker:  cfg,
					Logger:   slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
				})
				require.NoError(t, err)
				patch := leaserenewal.Patch(&http.Client{Transport: gate}, leaserenewal.Object{
					URL:   "http://user:secret@127.0.0.1:8080/p?token=abc123#frag",
					Token: func(context.Context) (string, error) { return "xyz789", nil },
				})
				l := keep(t, time.Minute, func(ctx context.Context, _ int) error { return patch(ctx, expiry) })
				time.Sleep(2 * time.Minute)
				l.stop()

				all := log.String() + errors.Join(l.errs...).Error()
				assert.Contains(t, log.String(), "sending paused")
				assert.Contains(t, all, "127.0.0.1:8080/p")
				assert.Contains(t, all, "sending is paused", "refusals should be among the errors")
				for _, secret := range []string{"secret@", ":secret", "abc123", "xyz789", "frag"} {
					assert.NotContains(t, all, secret)
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	return f(req)
}

// L7: the pause of BreakerConfig is at most a twentieth of the TTL, and the first one 2
// s or that; a breaker takes it for any TTL that a Renewal takes.
func TestL7BreakerConfig(t *testing.T) {
	for _, test := range []struct{ ttl, first, longest, attempt time.Duration }{
		{24 * time.Hour, 2 * time.Second, 5 * time.Minute, 30 * time.Second},
		{time.Hour, 2 * time.Second, 3 * time.Minute, 30 * time.Second},
		{time.Minute, 2 * time.Second, 3 * time.Second, 7500 * time.Millisecond},
		{20 * time.Second, time.Second, time.Second, 2500 * time.Millisecond},
		{time.Second, 50 * time.Millisecond, 50 * time.Millisecond, 125 * time.Millisecond},
		{20, 1, 1, time.Millisecond},
		{1, 1, 1, time.Millisecond}, // not the default, which zero would be
	} {
		cfg := leaserenewal.BreakerConfig(test.ttl)
		assert.Equal(t, breaker.Config{InitialRecoveryDelay: test.first, MaxRecoveryDelay: test.longest, TrialTimeout: test.attempt * 5 / 4}, cfg, test.ttl)
		_, err := breaker.New(cfg)
		assert.NoError(t, err)
	}
	for _, ttl := range []time.Duration{0, -1, -time.Hour} {
		_, err := breaker.New(leaserenewal.BreakerConfig(ttl))
		assert.Error(t, err)
	}
}

// L7: a thousand leases live through an outage of ten minutes: with one breaker among
// them the server gets a small part of the requests, and no lease is lost that could
// be saved.
func TestL7AThousandLeases(t *testing.T) {
	for _, test := range []struct {
		leases  int
		ttl     time.Duration
		refuses bool // or keeps waiting
	}{
		{1000, time.Hour, true},
		{50, time.Hour, false},
		{50, 20 * time.Minute, true}, // some expire in the outage: they cannot be saved
		{50, 20 * time.Minute, false},
	} {
		o := outage{leases: test.leases, ttl: test.ttl, length: 10 * time.Minute, refuses: test.refuses}
		without := o.toll(t)
		o.shared = true
		with := o.toll(t)
		t.Logf("%d leases, TTL %v, refuses %v: requests in the outage %d without a breaker, %d with it; leases lost %d and %d, of which could be saved %d and %d",
			test.leases, test.ttl, test.refuses, without.requests, with.requests, without.lost, with.lost, without.saveable, with.saveable)
		assert.Less(t, with.requests, without.requests/3)
		if test.leases == 1000 {
			assert.Less(t, with.requests, without.requests/100)
		}
		assert.Zero(t, with.saveable)
		if test.ttl == time.Hour {
			assert.Zero(t, with.lost)
		}
	}
}

// L7: the bound holds also where a renewal takes a tenth of the TTL.
func TestL7SlowRenewals(t *testing.T) {
	for _, refuses := range []bool{true, false} {
		for _, leases := range []int{12, 100} {
			o := outage{leases: leases, ttl: time.Minute, length: 18 * time.Second, takes: 6 * time.Second, refuses: refuses, shared: true}
			toll := o.toll(t)
			t.Logf("%d leases, refuses %v: leases lost %d, of which could be saved %d", leases, refuses, toll.lost, toll.saveable)
			assert.Zero(t, toll.saveable)
		}
	}
}

type toll struct{ requests, lost, saveable int }

// outage takes the server of some leases away for a while.
type outage struct {
	leases  int
	ttl     time.Duration
	length  time.Duration
	takes   time.Duration // what a renewal does
	refuses bool          // or keeps waiting
	shared  bool          // a breaker
}

func (o outage) toll(t *testing.T) (total toll) {
	count, ttl := o.leases, o.ttl
	synctest.Test(t, func(t *testing.T) {
		down := time.Now().Add(ttl / 2) // when the first renewals begin
		up := down.Add(o.length)
		var mu sync.Mutex
		expires := map[string]time.Time{} // as the server has it
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			if now := time.Now(); now.After(down) && now.Before(up) {
				mu.Lock()
				total.requests++
				mu.Unlock()
				if o.refuses {
					return nil, errDown
				}
				return httptestutil.Hang()(req)
			}
			select {
			case <-time.After(o.takes):
			case <-req.Context().Done():
				return nil, context.Cause(req.Context())
			}
			var patch struct {
				Spec struct{ ShutdownTime time.Time }
			}
			if err := json.NewDecoder(req.Body).Decode(&patch); err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			expires[req.URL.Path] = patch.Spec.ShutdownTime
			return httptestutil.Status(200, "")(req)
		})
		client := &http.Client{Transport: base}
		if o.shared {
			gate, err := transport.New(transport.Config{
				Base: base, Classify: policy.ServerErrors, Breaker: leaserenewal.BreakerConfig(ttl),
				Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			client.Transport = gate
		}

		ctx, cancel := context.WithCancel(t.Context())
		var leases sync.WaitGroup
		lost := map[string]bool{}
		for i := range count {
			path := "/" + time.Duration(i).String()
			r, err := leaserenewal.New(leaserenewal.Config{
				TTL:    ttl,
				Renew:  leaserenewal.Patch(client, leaserenewal.Object{URL: "http://api.example.com" + path}),
				OnLost: func() { mu.Lock(); lost[path] = true; mu.Unlock() },
			})
			require.NoError(t, err)
			leases.Go(func() {
				time.Sleep(ttl / 4 / time.Duration(count) * time.Duration(i))
				mu.Lock()
				expires[path] = time.Now().Add(ttl) // it is acquired
				mu.Unlock()
				r.Run(ctx)
			})
		}
		time.Sleep(time.Until(down))
		synctest.Wait()
		mu.Lock()
		atOutage := maps.Clone(expires)
		mu.Unlock()
		time.Sleep(time.Until(up) + ttl/2) // all that is lost has run out by then
		cancel()
		leases.Wait()

		// The bounds that the documentation of BreakerConfig gives.
		slack := ttl*150/1000 + 2*o.takes
		if !o.refuses {
			slack = ttl*275/1000 + 2*o.takes
		}
		assert.Len(t, atOutage, count)
		for path := range lost {
			total.lost++
			if atOutage[path].After(up.Add(slack)) {
				total.saveable++
			}
		}
		for path, expiry := range expires {
			assert.True(t, expiry.After(time.Now()), "%s is not held in the end", path)
		}
	})
	return total
}

// The patch of any path moves one field: what it leads to is the expiry, and there is
// nothing else.
func FuzzMergePatchPath(f *testing.F) {
	for _, path := range []string{"spec.shutdownTime", "a", "a.b.c.d", `"`, "\x00.\u2028", "<a>.&", "\xff", "a..b", "."} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		obj := leaserenewal.Object{URL: "http://h/", ExpiryField: path}
		sent := false
		renew := leaserenewal.Patch(&http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			sent = true
			var patch any
			require.NoError(t, json.NewDecoder(req.Body).Decode(&patch))
			if path == "" {
				path = "spec.shutdownTime"
			}
			for key := range strings.SplitSeq(path, ".") {
				fields, ok := patch.(map[string]any)
				require.True(t, ok)
				require.Len(t, fields, 1)
				require.Contains(t, fields, key)
				patch = fields[key]
			}
			require.Equal(t, "2030-01-02T02:04:05.000000678Z", patch)
			return httptestutil.Status(200, "")(req)
		})}, obj)
		err := renew(t.Context(), expiry)
		require.Equal(t, err == nil, sent)
		require.Equal(t, obj.Validate(), err)
	})
}
