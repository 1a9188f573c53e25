package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// gates returns a gate over b with limits and one without: the body of a response
// is watched by package timeouts in the one, and by the gate itself in the other.
func gates(t *testing.T, b http.RoundTripper) map[string]*transport.Gate {
	br, err := breaker.New(breaker.Config{})
	require.NoError(t, err)
	return map[string]*transport.Gate{
		"with limits":    newGate(t, transport.Config{Base: b, Limits: timeouts.Limits{Idle: 30 * time.Second, Total: -1}}),
		"without limits": {Base: b, Breaker: br},
	}
}

// D10, on real connections.
func TestG4BrokenBodyIsAFailure(t *testing.T) {
	onEach(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "four")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, s *httptest.Server) {
		for name, gate := range gates(t, s.Client().Transport) {
			t.Run(name, func(t *testing.T) {
				client := &http.Client{Transport: gate}
				for range 10 {
					resp, err := client.Get(s.URL)
					require.NoError(t, err)
					data, err := io.ReadAll(resp.Body)
					require.Equal(t, "four", string(data))
					require.Error(t, err)
					if s.TLS == nil {
						require.Equal(t, io.ErrUnexpectedEOF, err)
					} else {
						require.ErrorContains(t, err, "INTERNAL_ERROR")
					}
					_, again := resp.Body.Read(data)
					require.Error(t, again)
					require.NoError(t, resp.Body.Close())
				}
				require.Equal(t, breaker.Open, gate.Breaker.State())
				_, err := client.Get(s.URL)
				require.ErrorIs(t, err, breaker.ErrOpen)
				require.Equal(t, uint64(10), gate.Breaker.Stats().Failed)
			})
		}
	})
}

// What counts, once the header has been a success, and what does not.
func TestG4Body(t *testing.T) {
	errBroken, errFull := errors.New("broken"), errors.New("disk full")
	broken := func() io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader("data"), iotest.ErrReader(errBroken)))
	}
	writesItself := func(err error) io.ReadCloser { return &selfWriter{ReadCloser: http.NoBody, err: err} }
	for _, tt := range []struct {
		name     string
		body     func() io.ReadCloser
		use      func(t *testing.T, body io.ReadCloser, cancel context.CancelFunc)
		failures int
	}{
		{"read to the end", func() io.ReadCloser { return httptestutil.Body(t, "data") }, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			_, err := io.ReadAll(body)
			require.NoError(t, err)
			require.NoError(t, body.Close())
		}, 0},
		{"it breaks", broken, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			for range 3 {
				_, err := io.ReadAll(body)
				require.Equal(t, errBroken, err)
			}
		}, 1},
		{"it breaks after its end", func() io.ReadCloser {
			return io.NopCloser(&eofThen{errBroken, false})
		}, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			_, err := body.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
			_, err = body.Read(make([]byte, 1))
			require.Error(t, err)
		}, 0},
		{"it breaks after the caller gave up", broken, func(t *testing.T, body io.ReadCloser, cancel context.CancelFunc) {
			cancel()
			_, err := io.ReadAll(body)
			require.Error(t, err)
		}, 0},
		{"it breaks after Close", broken, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			body.Close()
			_, err := io.ReadAll(body)
			require.Error(t, err)
		}, 0},
		{"copied to the end", func() io.ReadCloser { return writesItself(nil) }, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			n, err := io.Copy(io.Discard, body)
			require.NoError(t, err)
			require.Equal(t, int64(7), n)
		}, 0},
		{"it breaks while copied", func() io.ReadCloser { return writesItself(errBroken) }, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			_, err := io.Copy(io.Discard, body)
			require.Equal(t, errBroken, err)
		}, 1},
		{"it breaks while copied by Read", broken, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			_, err := io.Copy(io.Discard, body)
			require.Equal(t, errBroken, err)
		}, 1},
		{"the target of a copy breaks, then the body", func() io.ReadCloser { return writesItself(errBroken) }, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			_, err := io.Copy(full{errFull}, body)
			require.Equal(t, errFull, err)
		}, 0},
		{"the target of a copy is short", func() io.ReadCloser { return writesItself(io.ErrShortWrite) }, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			_, err := io.Copy(full{}, body)
			require.Equal(t, io.ErrShortWrite, err)
		}, 0},
		{"the target of a copy breaks with an odd error", func() io.ReadCloser { return writesItself(nil) }, func(t *testing.T, body io.ReadCloser, _ context.CancelFunc) {
			_, err := io.Copy(full{severalErrors{errFull}}, body)
			require.Equal(t, severalErrors{errFull}, err)
		}, 0},
	} {
		for name, gate := range gates(t, base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: tt.body()}, nil
		})) {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := gate.RoundTrip(request(t, ctx))
				require.NoError(t, err)
				tt.use(t, resp.Body, cancel)
				closed(t, gate, tt.failures)
			})
		}
	}
}

// selfWriter writes itself out.
type selfWriter struct {
	io.ReadCloser
	err error
}

func (s *selfWriter) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, "written")
	if err != nil {
		return int64(n), err
	}
	return int64(n), s.err
}

// eofThen ends, and fails when it is read again.
type eofThen struct {
	err   error
	ended bool
}

func (e *eofThen) Read([]byte) (int, error) {
	if e.ended {
		return 0, e.err
	}
	e.ended = true
	return 0, io.EOF
}

type full struct{ err error }

// severalErrors cannot be compared.
type severalErrors []error

func (severalErrors) Error() string { return "several" }

func (f full) Write([]byte) (int, error) { return 0, f.err }

// A call counts once: one that failed by its header does not fail by its body too.
func TestG4FailureCountsOnce(t *testing.T) {
	for name, gate := range gates(t, base(httptestutil.Truncate(503, "data"))) {
		t.Run(name, func(t *testing.T) {
			_, err := send(t, gate)
			require.Equal(t, io.ErrUnexpectedEOF, err)
			closed(t, gate, 1)
		})
	}
}

// Each of two gates over one another counts for itself.
func TestG4TwoGates(t *testing.T) {
	for name, inner := range gates(t, base(httptestutil.Truncate(200, "data"))) {
		for otherName, outer := range gates(t, inner) {
			t.Run(otherName+" over one "+name, func(t *testing.T) {
				before := inner.Breaker.Stats().Failures
				_, err := send(t, outer)
				require.Equal(t, io.ErrUnexpectedEOF, err)
				closed(t, outer, 1)
				closed(t, inner, before+1)
			})
		}
	}
}

func TestG4LimitInTheBodyIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, time.Minute} { // it may pass before the Read that finds it
			gate := newGate(t, transport.Config{Base: base(httptestutil.Stall(200, "data")), Limits: timeouts.Limits{Total: 20 * time.Second}})
			resp, err := gate.RoundTrip(request(t, t.Context()))
			require.NoError(t, err)
			time.Sleep(wait)
			for range 3 {
				_, err = io.ReadAll(resp.Body)
				var over *timeouts.Error
				require.ErrorAs(t, err, &over)
			}
			closed(t, gate, 1)
		}
	})
}

// D21: a trial that is a long stream is decided by its header.
func TestG4LongStreamAsTheTrial(t *testing.T) {
	stream := func(breaks bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/stream" {
				return
			}
			for range 600 {
				io.WriteString(w, ".")
				w.(http.Flusher).Flush()
				time.Sleep(time.Second)
			}
			if breaks {
				panic(http.ErrAbortHandler)
			}
		}
	}
	for name, failures := range map[string]int{"it ends": 0, "it breaks": 1} {
		bubble(t, name, func(t *testing.T) {
			server := httptestutil.NewServer(t, stream(failures > 0))
			for _, gate := range gates(t, server.Transport) {
				for range 10 {
					gate.Breaker.Fail(nil)
				}
				time.Sleep(2001 * time.Millisecond)
				client := &http.Client{Transport: gate}
				long, err := client.Get(server.URL + "/stream")
				require.NoError(t, err)
				closed(t, gate, 0)
				short, err := client.Get(server.URL)
				require.NoError(t, err)
				require.Equal(t, 200, short.StatusCode)
				data, err := io.ReadAll(long.Body)
				require.Len(t, data, 600)
				require.Equal(t, failures > 0, err != nil)
				closed(t, gate, failures)
			}
		})
	}
}

// D22: an upgraded connection outlives the limits, directly and behind a proxy.
func TestUpgrade(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, buf)
	}))
	defer s.Close()
	for name, limits := range map[string]timeouts.Limits{
		"limits":    {Total: time.Minute, Header: time.Minute, Idle: time.Minute},
		"no limits": {Total: -1},
	} {
		t.Run(name, func(t *testing.T) {
			gate := newGate(t, transport.Config{Base: s.Client().Transport, Limits: limits, Classify: policy.ServerErrors})
			target, err := url.Parse(s.URL)
			require.NoError(t, err)
			proxy := httptest.NewServer(&httputil.ReverseProxy{
				Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
				Transport: gate,
			})
			defer proxy.Close()
			for _, tt := range []struct {
				url string
				rt  http.RoundTripper
			}{{s.URL, gate}, {proxy.URL, http.DefaultTransport}} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.url, nil)
				require.NoError(t, err)
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "echo")
				resp, err := tt.rt.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, 101, resp.StatusCode)
				conn, ok := resp.Body.(io.ReadWriteCloser)
				require.True(t, ok)
				_, err = io.WriteString(conn, "hello\n")
				require.NoError(t, err)
				line, err := bufio.NewReader(conn).ReadString('\n')
				require.NoError(t, err)
				require.Equal(t, "hello\n", line)
				require.NoError(t, conn.Close())
			}
			closed(t, gate, 0)

			plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			require.NoError(t, err)
			resp, err := gate.RoundTrip(plain)
			require.NoError(t, err)
			_, ok := resp.Body.(io.Writer)
			require.False(t, ok)
		})
	}
}

// The body of a 101 response is handed on as it is, and what becomes of it is no
// outcome.
func TestUpgradedConnectionIsNotWatched(t *testing.T) {
	conn := &connection{ReadCloser: io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))}
	for name, gate := range gates(t, base(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 101, Body: conn}, nil
	})) {
		t.Run(name, func(t *testing.T) {
			gate.Classify = policy.ServerErrors
			resp, err := gate.RoundTrip(request(t, t.Context()))
			require.NoError(t, err)
			require.Same(t, conn, resp.Body)
			_, err = io.ReadAll(resp.Body)
			require.Error(t, err)
			closed(t, gate, 0)
		})
	}
}

type connection struct{ io.ReadCloser }

func (*connection) Write(p []byte) (int, error) { return len(p), nil }
func (*connection) CloseWrite() error           { return nil }

// A body that can be written to still can, whoever watches it.
func TestWriterStays(t *testing.T) {
	for name, gate := range gates(t, base(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: struct {
			io.ReadCloser
			io.Writer
		}{io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), io.Discard}}, nil
	})) {
		t.Run(name, func(t *testing.T) {
			resp, err := gate.RoundTrip(request(t, t.Context()))
			require.NoError(t, err)
			_, err = io.WriteString(resp.Body.(io.Writer), "data")
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.Error(t, err)
			closed(t, gate, 1)
		})
	}
}

// FuzzBody reads a body that gives its data in random pieces and ends in random
// ways, with and without a gate around it: all that can be seen is the same, and
// what broke was counted.
func FuzzBody(f *testing.F) {
	f.Add("some data", uint8(3), false, false, false)
	f.Add("", uint8(1), true, true, false)
	f.Add("0123456789", uint8(200), true, false, true)
	f.Fuzz(func(t *testing.T, data string, size uint8, breaks, together, limited bool) {
		body := func() io.ReadCloser {
			var r io.Reader = strings.NewReader(data)
			if breaks {
				r = io.MultiReader(r, iotest.ErrReader(errors.ErrUnsupported))
			}
			if together {
				r = iotest.DataErrReader(r)
			}
			return io.NopCloser(struct{ io.Reader }{r})
		}
		name := "without limits"
		if limited {
			name = "with limits"
		}
		gate := gates(t, base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: body()}, nil
		}))[name]
		resp, err := gate.RoundTrip(request(t, t.Context()))
		require.NoError(t, err)
		bare, want, got := body(), make([]byte, int(size)+1), make([]byte, int(size)+1)
		for range len(data) + 2 {
			wantN, wantErr := bare.Read(want)
			n, err := resp.Body.Read(got)
			require.Equal(t, wantN, n)
			require.Equal(t, wantErr, err)
			require.Equal(t, want[:n], got[:n])
		}
		require.NoError(t, resp.Body.Close())
		failures := 0
		if breaks {
			failures = 1
		}
		closed(t, gate, failures)
	})
}
