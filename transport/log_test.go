package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// logTo returns a logger that writes lines without their time to w.
func logTo(w *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// D55: a record for each change, and none for a refusal.
func TestG7Log(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var seen []breaker.State
		s := new(server)
		gate := newGate(t, transport.Config{Base: s, Logger: logTo(&log), Breaker: breaker.Config{OnChange: func(c breaker.Change) {
			seen = append(seen, c.To)
			if c.To == breaker.Open {
				require.NotZero(t, log.Len(), "logged before the user's own hook")
			}
		}}})
		trip(t, gate, s)
		for range 10_000 {
			refused(t, gate)
		}
		require.Equal(t, "level=WARN msg=\"sending paused\" delay=2s failures=10 status=503\n", log.String())
		require.Equal(t, uint64(10_000), gate.Breaker.Stats().Refused)

		log.Reset()
		time.Sleep(2 * time.Second)
		s.does(httptestutil.Fail(syscall.ECONNREFUSED))
		send(t, gate)
		require.Equal(t, "level=WARN msg=\"pause lengthened\" delay=4s failures=1 error=\"connection refused\"\n", log.String())

		log.Reset()
		time.Sleep(4 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		s.does(func(req *http.Request) (*http.Response, error) {
			cancel()
			return nil, context.Canceled
		})
		gate.RoundTrip(request(t, ctx))
		require.Equal(t, "level=INFO msg=\"trial cancelled\" delay=2s\n", log.String())

		log.Reset()
		time.Sleep(2 * time.Second)
		s.does(httptestutil.Status(200, ""))
		send(t, gate)
		require.Equal(t, "level=INFO msg=\"sending resumed\"\n", log.String())

		log.Reset()
		for range 10 {
			gate.Breaker.Fail(nil)
		}
		require.Equal(t, "level=WARN msg=\"sending paused\" delay=2s failures=10\n", log.String())
		require.Equal(t, "[open half-open open half-open open half-open closed open]", fmt.Sprint(seen))
	})
}

func TestG7DefaultLoggerIsTheOneOfTheTime(t *testing.T) {
	gate, err := transport.New(transport.Config{})
	require.NoError(t, err)
	var log bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(logTo(&log))
	for range 10 {
		gate.Breaker.Fail(nil)
	}
	require.Contains(t, log.String(), "sending paused")
}

// D59, for all that a failure may be: neither the log nor the error of a refusal
// holds what the URL and the header keep secret.
func TestG7NoSecrets(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }))
	defer broken.Close()
	down := httptest.NewServer(nil)
	down.Close()
	address := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	malformed := func(answer string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			io.WriteString(conn, answer)
			conn.Close()
		}))
		t.Cleanup(s.Close)
		return address(s)
	}

	for _, tt := range []struct {
		name, host string
		base       http.RoundTripper
	}{
		{"503", address(broken), nil},
		{"refused", address(down), nil},
		{"silent", address(silent), nil},
		{"a client as the base", address(down), base(func(req *http.Request) (*http.Response, error) {
			return http.DefaultClient.Do(&http.Request{URL: req.URL, Header: req.Header})
		})},
		{"an error with the URL in its text", address(down), base(func(req *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("%s %s giving up after 5 attempt(s)", req.Method, req.URL)
		})},
		{"an error with the answer in its text", address(down), base(func(req *http.Request) (*http.Response, error) {
			return nil, errors.New("cannot fetch token: 500\nResponse: secret")
		})},
		{"a malformed header", malformed("HTTP/1.1 200 OK\r\nSet-Cookie session=secret\r\n\r\n"), nil},
		{"a malformed status", malformed("secret\r\n\r\n"), nil},
		{"a malformed length", malformed("HTTP/1.1 200 OK\r\nContent-Length: \\\"secret\r\n\r\n"), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			var cause error
			gate := newGate(t, transport.Config{
				Base:   tt.base,
				Limits: timeouts.Limits{Header: 20 * time.Millisecond},
				Logger: logTo(&log),
				Breaker: breaker.Config{
					FailuresToEnterRecovery: 2, InitialRecoveryDelay: time.Hour,
					OnChange: func(c breaker.Change) { cause = c.Cause },
				},
			})
			var texts []string
			for range 3 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://user:secret@"+tt.host+"/p?q='a' \"b\"&token=abc123#frag", nil)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer xyz789")
				_, err = gate.RoundTrip(req)
				if errors.Is(err, breaker.ErrOpen) {
					texts = append(texts, err.Error())
				}
			}
			require.Len(t, texts, 1)
			texts = append(texts, log.String(), cause.Error())
			require.Contains(t, log.String(), "sending paused")
			for _, text := range texts {
				for _, secret := range []string{"secret", "abc123", "xyz789"} {
					require.NotContains(t, text, secret)
				}
			}
			if tt.name == "a client as the base" {
				require.ErrorIs(t, cause, syscall.ECONNREFUSED, "the error itself is still there")
			}
		})
	}
	require.EqualError(t, transport.StatusError(999), "999")

	// Also where the user gives the error to the breaker.
	var log bytes.Buffer
	gate := newGate(t, transport.Config{Logger: logTo(&log), Breaker: breaker.Config{FailuresToEnterRecovery: 1}})
	gate.Breaker.Fail(errors.New(`Get "https://server.example/?token=abc123": EOF`))
	require.Equal(t, "level=WARN msg=\"sending paused\" delay=2s failures=1 error=\"Get [redacted]: EOF\"\n", log.String())
}

// An error that names no URL is handed on as it is, also where its text holds the
// letters of the query by chance.
func TestG7HarmlessErrorStays(t *testing.T) {
	errRefused := errors.New("connection refused")
	var cause error
	gate := newGate(t, transport.Config{
		Base:    base(httptestutil.Fail(errRefused)),
		Breaker: breaker.Config{FailuresToEnterRecovery: 1, OnChange: func(c breaker.Change) { cause = c.Cause }},
	})
	req := request(t, t.Context())
	req.URL.RawQuery = "e"
	_, err := gate.RoundTrip(req)
	require.Equal(t, errRefused, err)
	require.Equal(t, errRefused, cause)
}
