package timeouts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/timeouts"
)

// base is a RoundTripper in one function.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

// silent is a base that never answers.
func silent(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func get(t testing.TB, ctx context.Context, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	return req
}

// isLimit demands that err is the given limit, and a timeout in every form that
// callers look for.
func isLimit(t testing.TB, err error, phase timeouts.Phase, limit time.Duration) {
	t.Helper()
	var over *timeouts.Error
	require.ErrorAs(t, err, &over)
	require.Equal(t, timeouts.Error{Phase: phase, Limit: limit}, *over)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
}

func isNoLimit(t testing.TB, err error) {
	t.Helper()
	var over *timeouts.Error
	require.Error(t, err)
	require.False(t, errors.As(err, &over), "%v", err)
}

// takes demands that f lasts exactly d, in a bubble.
func takes(t testing.TB, d time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	require.Equal(t, d, time.Since(start))
}

// served runs f in a bubble, with a server in it whose answers are limited.
func served(t *testing.T, limits timeouts.Limits, handler http.HandlerFunc, f func(t *testing.T, client *http.Client, url string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, handler)
		client := &http.Client{Transport: &timeouts.Transport{Base: server.Transport, Limits: limits}}
		f(t, client, server.URL)
	})
}

// stall answers with a first line, and then nothing for as long as the client waits.
func stall(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, "first\n")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func TestLimitsValidate(t *testing.T) {
	require.NoError(t, timeouts.Limits{}.Validate())
	require.NoError(t, timeouts.Limits{Total: 1, Header: 1, Idle: 1}.Validate())
	limits := timeouts.Limits{Total: -1, Header: -2, Idle: -3}
	const want = `timeouts: Limits.Total is -1ns; accepted: > 0, or 0 for no limit
timeouts: Limits.Header is -2ns; accepted: > 0, or 0 for no limit
timeouts: Limits.Idle is -3ns; accepted: > 0, or 0 for no limit`
	require.EqualError(t, limits.Validate(), want)

	// A literal is not checked before it is used.
	for _, transport := range []http.RoundTripper{
		&timeouts.Transport{Limits: limits},
		&timeouts.Transport{Base: base(func(*http.Request) (*http.Response, error) { panic("called") }), Limits: limits},
	} {
		req := get(t, t.Context(), "http://server.example/")
		req.Body = httptestutil.Body(t, "the body is closed")
		_, err := transport.RoundTrip(req)
		require.EqualError(t, err, want)
	}
}

func TestT1TotalCoversTheBody(t *testing.T) {
	limits := timeouts.Limits{Total: 5 * time.Second}
	served(t, limits, stall, func(t *testing.T, client *http.Client, url string) {
		takes(t, 5*time.Second, func() {
			resp, err := client.Get(url)
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			data, err := io.ReadAll(resp.Body)
			require.Equal(t, "first\n", string(data))
			isLimit(t, err, timeouts.Total, 5*time.Second)
			n, again := resp.Body.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Equal(t, err, again)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, resp.Body.Close())
		})
	})
	t.Run("also while nobody reads", func(t *testing.T) {
		var gone time.Time
		handler := func(w http.ResponseWriter, r *http.Request) {
			stall(w, r)
			gone = time.Now()
		}
		served(t, limits, handler, func(t *testing.T, client *http.Client, url string) {
			start := time.Now()
			resp, err := client.Get(url)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			synctest.Wait() // for the race detector
			require.Equal(t, 5*time.Second, gone.Sub(start))
			_, err = resp.Body.Read(make([]byte, 100))
			isLimit(t, err, timeouts.Total, 5*time.Second)
		})
	})
}

// D07, D13.
func TestT2T4Header(t *testing.T) {
	for _, limits := range []timeouts.Limits{
		{Header: time.Second},
		{Header: time.Second, Total: time.Minute, Idle: time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			transport := &timeouts.Transport{Base: base(silent), Limits: limits}
			takes(t, time.Second, func() {
				resp, err := transport.RoundTrip(get(t, context.Background(), "http://server.example/"))
				require.Nil(t, resp)
				isLimit(t, err, timeouts.Header, time.Second)
				require.EqualError(t, err, "timeouts: no response header within 1s")
			})
			takes(t, time.Second, func() {
				_, err := (&http.Client{Transport: transport}).Get("http://server.example/")
				isLimit(t, err, timeouts.Header, time.Second)
				var urlError *url.Error
				require.ErrorAs(t, err, &urlError)
				require.True(t, urlError.Timeout())
			})
		})
	}
	t.Run("the request body counts", func(t *testing.T) {
		served(t, timeouts.Limits{Header: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // without reading the body
		}, func(t *testing.T, client *http.Client, url string) {
			takes(t, time.Second, func() {
				_, err := client.Post(url, "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
				isLimit(t, err, timeouts.Header, time.Second)
			})
		})
	})
	t.Run("ends with the header", func(t *testing.T) {
		served(t, timeouts.Limits{Header: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second - 1)
			io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
			time.Sleep(time.Hour)
			io.WriteString(w, "second\n")
		}, func(t *testing.T, client *http.Client, url string) {
			resp, err := client.Get(url)
			require.NoError(t, err)
			data, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "first\nsecond\n", string(data))
		})
	})
	t.Run("a total before it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			transport := &timeouts.Transport{Base: base(silent), Limits: timeouts.Limits{Header: time.Minute, Total: time.Second}}
			takes(t, time.Second, func() {
				_, err := transport.RoundTrip(get(t, t.Context(), "http://server.example/"))
				isLimit(t, err, timeouts.Total, time.Second)
			})
		})
	})
}

// D02.
func TestT3IdleEndsSilenceAndNotProgress(t *testing.T) {
	for name, limits := range map[string]timeouts.Limits{
		"alone":        {Idle: 2 * time.Second},
		"with a total": {Idle: 2 * time.Second, Total: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			served(t, limits, func(w http.ResponseWriter, r *http.Request) {
				for range 20 {
					time.Sleep(1900 * time.Millisecond)
					io.WriteString(w, ".")
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			}, func(t *testing.T, client *http.Client, url string) {
				takes(t, 40*time.Second, func() {
					resp, err := client.Get(url)
					require.NoError(t, err)
					data, err := io.ReadAll(resp.Body)
					require.Len(t, data, 20)
					isLimit(t, err, timeouts.Idle, 2*time.Second)
					require.EqualError(t, err, "timeouts: no data of the response body for 2s")
					n, again := resp.Body.Read(make([]byte, 1))
					require.Zero(t, n)
					require.Equal(t, err, again)
					require.NoError(t, resp.Body.Close())
					require.NoError(t, resp.Body.Close())
				})
			})
		})
	}
}

// D03.
func TestT3SlowReaderIsNoStalledServer(t *testing.T) {
	served(t, timeouts.Limits{Idle: 2 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "abcde")
	}, func(t *testing.T, client *http.Client, url string) {
		resp, err := client.Get(url)
		require.NoError(t, err)
		var data []byte
		for b := make([]byte, 1); err == nil; {
			var n int
			n, err = resp.Body.Read(b)
			data = append(data, b[:n]...)
			time.Sleep(time.Minute)
		}
		require.Equal(t, io.EOF, err)
		require.Equal(t, "abcde", string(data))
	})
}

func TestT3IdleAndTotalTogether(t *testing.T) {
	served(t, timeouts.Limits{Idle: 2 * time.Second, Total: 3 * time.Second}, stall,
		func(t *testing.T, client *http.Client, url string) {
			takes(t, 3*time.Second, func() {
				resp, err := client.Get(url)
				require.NoError(t, err)
				_, err = resp.Body.Read(make([]byte, 100))
				require.NoError(t, err)
				time.Sleep(1500 * time.Millisecond)
				_, err = resp.Body.Read(make([]byte, 100))
				isLimit(t, err, timeouts.Total, 3*time.Second)
			})
		})
}

// On HTTP/2 a Read of the response that waits while a Read of the request body
// waits too is not ended by the context, only by Close.
func TestT4EndsBidirectionalStream(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		io.Copy(io.Discard, r.Body)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	warm, err := server.Client().Post(server.URL, "", nil) // connects
	require.NoError(t, err)
	warm.Body.Close()
	for _, limits := range []timeouts.Limits{{Total: 2 * time.Second}, {Idle: 200 * time.Millisecond}} {
		upload, w := io.Pipe()
		req := get(t, t.Context(), server.URL)
		req.Method, req.Body = http.MethodPost, upload
		resp, err := (&timeouts.Transport{Base: server.Client().Transport, Limits: limits}).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 2, resp.ProtoMajor)
		_, err = io.ReadAll(resp.Body) // hangs, where the body is not closed
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, resp.Body.Close())
		w.Close()
	}
}

// D06, and the same in the header phase.
func TestT5TheSoonerLimitWins(t *testing.T) {
	for _, tt := range []struct {
		name          string
		total, caller time.Duration
		ours          bool
	}{
		{"the caller's", 20 * time.Second, 5 * time.Second, false},
		{"ours", 5 * time.Second, 20 * time.Second, true},
		{"both at once", 5 * time.Second, 5 * time.Second, false},
	} {
		check := func(t *testing.T, ctx context.Context, err error) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			if tt.ours {
				isLimit(t, err, timeouts.Total, 5*time.Second)
				require.NoError(t, ctx.Err())
			} else {
				isNoLimit(t, err)
			}
		}
		t.Run(tt.name+", in the header", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.caller)
				defer cancel()
				takes(t, 5*time.Second, func() {
					_, err := (&timeouts.Transport{Base: base(silent), Limits: timeouts.Limits{Total: tt.total}}).RoundTrip(get(t, ctx, "http://server.example/"))
					check(t, ctx, err)
				})
			})
		})
		t.Run(tt.name+", in the body", func(t *testing.T) {
			served(t, timeouts.Limits{Total: tt.total}, stall, func(t *testing.T, client *http.Client, url string) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.caller)
				defer cancel()
				takes(t, 5*time.Second, func() {
					resp, err := client.Do(get(t, ctx, url))
					require.NoError(t, err)
					_, err = io.ReadAll(resp.Body)
					check(t, ctx, err)
				})
			})
		})
	}
}

// A base that looks at the deadline itself, as net.Dialer does, may be quicker than
// the timer.
func TestT4BaseThatKnowsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errDial := errors.New("dial tcp: i/o timeout")
		transport := &timeouts.Transport{Limits: timeouts.Limits{Total: time.Second}, Base: base(func(req *http.Request) (*http.Response, error) {
			deadline, ok := req.Context().Deadline()
			require.True(t, ok)
			time.Sleep(time.Until(deadline))
			return nil, errDial
		})}
		_, err := transport.RoundTrip(get(t, t.Context(), "http://server.example/"))
		isLimit(t, err, timeouts.Total, time.Second)
	})
}

// A base that does not heed its context is not ended, but what it returns after the
// limit is too late.
func TestT4BaseThatAnswersTooLate(t *testing.T) {
	for name, answer := range map[string]func(t *testing.T) *http.Response{
		"body": func(t *testing.T) *http.Response {
			return &http.Response{StatusCode: 200, Body: httptestutil.Body(t, "x")}
		},
		"no body": func(t *testing.T) *http.Response {
			return &http.Response{StatusCode: 204, Body: httptestutil.Body(t, "")}
		},
		"nothing": func(t *testing.T) *http.Response { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resp, err := (&timeouts.Transport{Limits: timeouts.Limits{Total: time.Second}, Base: base(func(*http.Request) (*http.Response, error) {
					time.Sleep(time.Minute)
					return answer(t), nil
				})}).RoundTrip(get(t, t.Context(), "http://server.example/"))
				require.Nil(t, resp)
				isLimit(t, err, timeouts.Total, time.Second)
			})
		})
	}
}

// The caller's cancellation gives what it gives without limits: on each protocol,
// with and without a cause, in the header and in the body.
func TestT5CancellationPassesThrough(t *testing.T) {
	arrived := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
		} else {
			arrived <- struct{}{}
		}
		<-r.Context().Done()
	})
	for name, start := range map[string]func(*httptest.Server){
		"HTTP/1.1": (*httptest.Server).Start,
		"HTTP/2":   func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		server := httptest.NewUnstartedServer(handler)
		start(server)
		defer server.Close()
		try := func(rt http.RoundTripper, path string, cause error) error {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if path == "/header" {
				go func() {
					<-arrived
					cancel(cause)
				}()
			}
			resp, err := rt.RoundTrip(get(t, ctx, server.URL+path))
			if path == "/header" {
				return err
			}
			require.NoError(t, err)
			defer resp.Body.Close()
			_, err = resp.Body.Read(make([]byte, 100))
			require.NoError(t, err)
			go cancel(cause)
			_, err = io.ReadAll(resp.Body)
			return err
		}
		for _, path := range []string{"/header", "/body"} {
			for _, cause := range []error{nil, errors.New("shutting down")} {
				t.Run(fmt.Sprint(name, path, cause), func(t *testing.T) {
					bare := server.Client().Transport
					limited := &timeouts.Transport{Base: bare, Limits: timeouts.Limits{Total: time.Minute, Header: time.Minute, Idle: time.Minute}}
					require.Equal(t, try(bare, path, cause), try(limited, path, cause))
				})
			}
		}
	}
}

// watched is a context that can end, does not, and counts what waits for its end.
type watched struct {
	context.Context
	watchers atomic.Int64
}

var never = make(chan struct{})

func (w *watched) Done() <-chan struct{} { return never }

func (w *watched) AfterFunc(func()) (stop func() bool) {
	w.watchers.Add(1)
	return sync.OnceValue(func() bool {
		w.watchers.Add(-1)
		return true
	})
}

// Whatever ends a request, the context that the base got is over then, and nothing
// waits for the caller's any longer.
func TestT6Released(t *testing.T) {
	for _, tt := range []struct {
		name string
		base base
		use  func(resp *http.Response)
	}{
		{"EOF", httptestutil.Status(200, "body"), func(resp *http.Response) { io.ReadAll(resp.Body) }},
		{"EOF by WriteTo", httptestutil.Status(200, "body"), func(resp *http.Response) { io.Copy(io.Discard, resp.Body) }},
		{"error of the body", httptestutil.Truncate(200, "body"), func(resp *http.Response) { io.ReadAll(resp.Body) }},
		{"Close", httptestutil.Status(200, "body"), func(resp *http.Response) { resp.Body.Close() }},
		{"limit in the body", httptestutil.Stall(200, "body"), func(resp *http.Response) { io.ReadAll(resp.Body) }},
		{"no content", httptestutil.Status(200, ""), func(*http.Response) {}},
		{"error", httptestutil.Fail(errors.New("reset")), nil},
		{"limit in the header", httptestutil.Hang(), nil},
		{"panic", func(*http.Request) (*http.Response, error) { panic("boom") }, nil},
		{"Goexit", func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := &watched{Context: context.Background()}
				var child context.Context
				transport := &timeouts.Transport{
					Limits: timeouts.Limits{Total: time.Minute, Header: time.Minute, Idle: time.Minute},
					Base: base(func(req *http.Request) (*http.Response, error) {
						child = req.Context()
						require.NoError(t, child.Err())
						return tt.base(req)
					}),
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { recover() }()
					resp, err := transport.RoundTrip(get(t, ctx, "http://server.example/"))
					if err != nil {
						return
					}
					if resp.Body != http.NoBody {
						require.NoError(t, child.Err(), "not before the body is read")
						require.Equal(t, int64(1), ctx.watchers.Load())
					}
					tt.use(resp)
				}()
				<-done
				require.Error(t, child.Err())
				<-child.Done()
				synctest.Wait() // for what the timer does last
				require.Zero(t, ctx.watchers.Load())
			})
		})
	}
}

// A context that is over when the request is made is over for the base, too, before it
// can do anything.
func TestContextThatIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		transport := &timeouts.Transport{
			Limits: timeouts.Limits{Total: time.Minute, Header: time.Minute, Idle: time.Minute},
			Base: base(func(req *http.Request) (*http.Response, error) {
				select {
				case <-req.Context().Done():
				default:
					t.Error("not over for the base")
				}
				return nil, context.Cause(req.Context())
			}),
		}
		_, err := transport.RoundTrip(get(t, ctx, "http://server.example/"))
		require.Equal(t, context.Canceled, err)
	}
}

// D22: 101 ends the limits, and the body is the base's own.
func TestT7SwitchingProtocols(t *testing.T) {
	type connection interface {
		io.ReadWriteCloser
		CloseWrite() error
	}
	for name, inner := range map[string]io.ReadCloser{
		"writable":     struct{ connection }{},
		"not writable": io.NopCloser(strings.NewReader("x")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := &watched{Context: context.Background()}
				var child context.Context
				transport := &timeouts.Transport{
					Limits: timeouts.Limits{Total: time.Second, Header: time.Second, Idle: time.Second},
					Base: base(func(req *http.Request) (*http.Response, error) {
						child = req.Context()
						return &http.Response{StatusCode: 101, Body: inner, Request: req}, nil
					}),
				}
				req := get(t, ctx, "http://server.example/")
				resp, err := transport.RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, inner, resp.Body)
				require.Same(t, req, resp.Request)
				require.Zero(t, ctx.watchers.Load())
				time.Sleep(time.Minute)
				require.NoError(t, child.Err(), "not cancelled: a base may still need it")
			})
		})
	}
}

// D26.
func TestT8NoContentIsNotWrapped(t *testing.T) {
	served(t, timeouts.Limits{Total: 5 * time.Second}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("Content-Length", "1234")
		}
	}, func(t *testing.T, client *http.Client, url string) {
		for _, path := range []string{"/204", "/304", "/head"} {
			req := get(t, t.Context(), url+path)
			if path == "/head" {
				req.Method = http.MethodHead
			}
			resp, err := client.Do(req)
			require.NoError(t, err)
			if path == "/head" {
				require.Equal(t, int64(1234), resp.ContentLength)
			}
			require.Equal(t, http.NoBody, resp.Body)
			time.Sleep(10 * time.Second)
			n, err := resp.Body.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Equal(t, io.EOF, err)
			require.NoError(t, resp.Body.Close())
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/head" {
				w.Header().Set("Content-Length", "1234")
			}
		}))
		server.EnableHTTP2 = true
		server.StartTLS()
		defer server.Close()
		bare := server.Client().Transport
		want, err := bare.RoundTrip(get(t, t.Context(), server.URL))
		require.NoError(t, err)
		require.Equal(t, 2, want.ProtoMajor)
		resp, err := (&timeouts.Transport{Base: bare, Limits: timeouts.Limits{Total: time.Minute}}).RoundTrip(get(t, t.Context(), server.URL))
		require.NoError(t, err)
		require.IsType(t, want.Body, resp.Body)

		head := get(t, t.Context(), server.URL+"/head")
		head.Method = http.MethodHead
		resp, err = (&timeouts.Transport{Base: bare, Limits: timeouts.Limits{Total: time.Minute}}).RoundTrip(head)
		require.NoError(t, err)
		require.Equal(t, int64(1234), resp.ContentLength)
		require.IsType(t, want.Body, resp.Body)
	})
	t.Run("a made-up response has no length, and content", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			transport := &timeouts.Transport{Limits: timeouts.Limits{Total: time.Second}, Base: base(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("data"))}, nil
			})}
			resp, err := transport.RoundTrip(get(t, t.Context(), "http://server.example/"))
			require.NoError(t, err)
			time.Sleep(time.Second + 1)
			_, err = resp.Body.Read(make([]byte, 1))
			isLimit(t, err, timeouts.Total, time.Second)
		})
	})
}

func TestLongestLimits(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	served(t, timeouts.Limits{Total: longest, Header: longest, Idle: longest}, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Hour)
		w.(http.Flusher).Flush()
		time.Sleep(time.Hour)
		io.WriteString(w, "data")
	}, func(t *testing.T, client *http.Client, url string) {
		resp, err := client.Get(url)
		require.NoError(t, err)
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "data", string(data))
	})
}

// overHTTP2 returns a transport to a server that speaks HTTP/2.
func overHTTP2(t *testing.T, answer http.HandlerFunc) (*http.Transport, string) {
	s := httptest.NewUnstartedServer(answer)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Client().Transport.(*http.Transport), s.URL
}

// On HTTP/2 an answer without content is not over with its header: what the header
// says must not end the request.
func TestT6T8EndAfterTheHeader(t *testing.T) {
	header := make(chan struct{}, 100) // has arrived at the client
	bare, url := overHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Trailer")
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/0":
			w.Header().Set("Content-Length", "0")
		}
		w.(http.Flusher).Flush()
		w.Header().Set("X-Trailer", "here")
		select {
		case <-r.Context().Done():
			t.Error("the request was cancelled")
		case <-header:
		}
	})
	transport := &timeouts.Transport{Base: bare, Limits: timeouts.Limits{Total: time.Minute, Header: time.Minute, Idle: time.Minute}}
	for _, path := range []string{"/204", "/0", "/"} {
		for range 5 {
			resp, err := transport.RoundTrip(get(t, t.Context(), url+path))
			require.NoError(t, err)
			require.Equal(t, 2, resp.ProtoMajor)
			header <- struct{}{}
			data, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Empty(t, data)
			require.Equal(t, "here", resp.Trailer.Get("X-Trailer"))
			require.NoError(t, resp.Body.Close())
		}
	}
}

// On HTTP/2 the request's body may still be on its way when the response has ended:
// that does not cut it off.
func TestT6UploadOutlivesTheResponse(t *testing.T) {
	for _, answer := range []string{"", "data"} {
		synctest.Test(t, func(t *testing.T) {
			var child context.Context
			transport := &timeouts.Transport{
				Limits: timeouts.Limits{Total: time.Minute, Idle: time.Second},
				Base: base(func(req *http.Request) (*http.Response, error) {
					child = req.Context()
					return httptestutil.Status(200, answer)(req)
				}),
			}
			ctx := &watched{Context: context.Background()}
			req := get(t, ctx, "http://server.example/")
			req.Body = io.NopCloser(strings.NewReader("on its way"))
			resp, err := transport.RoundTrip(req)
			require.NoError(t, err)
			for range 3 {
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, err)
			}
			time.Sleep(time.Hour)
			require.NoError(t, child.Err())
			require.Zero(t, ctx.watchers.Load())
			require.NoError(t, resp.Body.Close())
			if answer != "" {
				require.Equal(t, context.Canceled, child.Err())
			}
		})
	}
}

func TestT9WithLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &timeouts.Transport{Base: base(silent), Limits: timeouts.Limits{Total: time.Second, Header: 2 * time.Second}}
		takes(t, time.Minute, func() {
			ctx := timeouts.WithLimits(t.Context(), timeouts.Limits{Header: time.Minute})
			_, err := transport.RoundTrip(get(t, ctx, "http://server.example/"))
			isLimit(t, err, timeouts.Header, time.Minute)
		})
		takes(t, time.Hour, func() { // no limits at all
			ctx, cancel := context.WithTimeout(timeouts.WithLimits(t.Context(), timeouts.Limits{}), time.Hour)
			defer cancel()
			_, err := transport.RoundTrip(get(t, ctx, "http://server.example/"))
			isNoLimit(t, err)
		})
		_, err := transport.RoundTrip(get(t, timeouts.WithLimits(t.Context(), timeouts.Limits{Idle: -1}), "http://server.example/"))
		require.EqualError(t, err, "timeouts: Limits.Idle is -1ns; accepted: > 0, or 0 for no limit")
	})
}

func TestT11TheResponseIsTheBases(t *testing.T) {
	other := get(t, t.Context(), "http://elsewhere.example/")
	for name, inResponse := range map[string]func(sent *http.Request) *http.Request{
		"the request sent": func(sent *http.Request) *http.Request { return sent },
		"another":          func(*http.Request) *http.Request { return other },
		"none":             func(*http.Request) *http.Request { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			var sent *http.Request
			answer := &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("data")), Trailer: http.Header{"X": nil}}
			req := get(t, t.Context(), "http://server.example/")
			resp, err := (&timeouts.Transport{Limits: timeouts.Limits{Total: time.Minute}, Base: base(func(r *http.Request) (*http.Response, error) {
				sent = r
				answer.Request = inResponse(r)
				return answer, nil
			})}).RoundTrip(req)
			require.NoError(t, err)
			require.Same(t, answer, resp)
			require.NotSame(t, req, sent)
			if want := inResponse(sent); want == sent {
				require.Same(t, req, resp.Request)
			} else {
				require.Equal(t, want, resp.Request)
			}
		})
	}
}

func TestT12ErrorsAreTheBases(t *testing.T) {
	errReset := &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}
	_, err := (&timeouts.Transport{Limits: timeouts.Limits{Total: time.Minute}, Base: base(httptestutil.Fail(errReset))}).RoundTrip(get(t, t.Context(), "http://server.example/"))
	require.Same(t, errReset, err)
}

func TestT5EarlierDeadlineLeavesTheRequestUntouched(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req := get(t, ctx, "http://server.example/")
	body := io.NopCloser(strings.NewReader("data"))
	transport := &timeouts.Transport{Limits: timeouts.Limits{Total: time.Hour, Header: time.Hour, Idle: time.Hour}, Base: base(func(r *http.Request) (*http.Response, error) {
		require.Same(t, req, r)
		return &http.Response{StatusCode: 200, Body: body}, nil
	})}
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.Equal(t, body, resp.Body)

	// A header limit before the deadline stays, alone.
	transport.Limits.Header = time.Second
	transport.Base = base(func(r *http.Request) (*http.Response, error) {
		require.NotSame(t, req, r)
		deadline, ok := r.Context().Deadline()
		require.True(t, ok)
		want, _ := ctx.Deadline()
		require.Equal(t, want, deadline, "the caller's")
		return nil, io.EOF
	})
	_, err = transport.RoundTrip(req)
	require.Equal(t, io.EOF, err)
}

// What a base, or middleware below, may do with the context of its request.
func TestChildContext(t *testing.T) {
	type key struct{}
	transport := func(base base) *timeouts.Transport {
		return &timeouts.Transport{Base: base, Limits: timeouts.Limits{Total: time.Second}}
	}
	roundTrip := func(t *testing.T, b base) {
		ctx := context.WithValue(t.Context(), key{}, "value")
		_, err := transport(b).RoundTrip(get(t, ctx, "http://server.example/"))
		require.Error(t, err)
	}
	t.Run("deadline and values", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			roundTrip(t, func(req *http.Request) (*http.Response, error) {
				deadline, ok := req.Context().Deadline()
				require.True(t, ok)
				require.Equal(t, time.Second, time.Until(deadline))
				require.Equal(t, "value", req.Context().Value(key{}))
				return nil, io.EOF
			})
		})
	})
	t.Run("error and cause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			roundTrip(t, func(req *http.Request) (*http.Response, error) {
				ctx := req.Context()
				require.NoError(t, ctx.Err())
				<-ctx.Done()
				require.Equal(t, context.DeadlineExceeded, ctx.Err())
				require.Equal(t, context.DeadlineExceeded, context.Cause(ctx))
				return nil, ctx.Err()
			})
		})
	})
	t.Run("ends at once with the caller's", func(t *testing.T) {
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := transport(func(req *http.Request) (*http.Response, error) {
				cancel()
				require.Equal(t, context.Canceled, req.Context().Err())
				<-req.Context().Done()
				return nil, req.Context().Err()
			}).RoundTrip(get(t, ctx, "http://server.example/"))
			require.Equal(t, context.Canceled, err)
		}
	})
	t.Run("contexts derived from it end with it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			roundTrip(t, func(req *http.Request) (*http.Response, error) {
				var ended, stopped atomic.Int64
				var derived []context.Context
				for i := range 10 {
					ctx, cancel := context.WithCancel(req.Context())
					defer cancel()
					derived = append(derived, ctx)
					context.AfterFunc(req.Context(), func() { ended.Add(1) })
					stop := context.AfterFunc(req.Context(), func() { stopped.Add(1) })
					require.True(t, stop())
					require.False(t, stop())
					if i%2 == 0 {
						cancel()
					}
				}
				for _, ctx := range derived {
					<-ctx.Done()
				}
				synctest.Wait()
				require.Equal(t, int64(10), ended.Load())
				require.Zero(t, stopped.Load())
				late, cancel := context.WithCancel(req.Context())
				defer cancel()
				<-late.Done()
				require.Equal(t, context.DeadlineExceeded, late.Err())
				context.AfterFunc(req.Context(), func() { ended.Add(1) })
				req.Context().(interface{ AfterFunc(func()) func() bool }).AfterFunc(func() { ended.Add(1) })
				synctest.Wait()
				require.Equal(t, int64(12), ended.Load())
				return nil, late.Err()
			})
		})
	})
	t.Run("from many goroutines, while it ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			roundTrip(t, func(req *http.Request) (*http.Response, error) {
				var wg sync.WaitGroup
				for range 8 {
					wg.Go(func() {
						for i := 0; req.Context().Err() == nil; i++ {
							ctx, cancel := context.WithCancel(req.Context())
							if i%50 == 49 {
								time.Sleep(time.Second / 100)
							}
							select {
							case <-req.Context().Done():
								require.Error(t, req.Context().Err())
							default:
							}
							cancel()
							<-ctx.Done()
						}
					})
				}
				wg.Wait()
				return nil, io.EOF
			})
		})
	})
}

// writerBody implements all that a body may.
type writerBody struct {
	io.Reader
	written bytes.Buffer
	closed  int
}

func (b *writerBody) Write(p []byte) (int, error) { return b.written.Write(p) }
func (b *writerBody) Close() error                { b.closed++; return nil }

func TestT8WriterStays(t *testing.T) {
	inner := &writerBody{Reader: strings.NewReader("data")}
	resp, err := (&timeouts.Transport{Limits: timeouts.Limits{Total: time.Minute}, Base: base(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: inner}, nil
	})}).RoundTrip(get(t, t.Context(), "http://server.example/"))
	require.NoError(t, err)
	w, ok := resp.Body.(io.Writer)
	require.True(t, ok)
	_, ok = resp.Body.(io.WriterTo)
	require.False(t, ok, "not gained")
	_, err = io.WriteString(w, "to the server")
	require.NoError(t, err)
	require.Equal(t, "to the server", inner.written.String())
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
	require.NoError(t, resp.Body.Close())
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, inner.closed)
}

// slowSource writes one line each second when it is written out, and ends with err.
type slowSource struct {
	io.ReadCloser
	lines int
	gap   time.Duration
	err   error
}

func (s *slowSource) WriteTo(w io.Writer) (total int64, err error) {
	for range s.lines {
		time.Sleep(s.gap)
		n, err := io.WriteString(w, "line\n")
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, s.err
}

func TestT8WriterTo(t *testing.T) {
	errBroken, errFull := errors.New("broken"), errors.New("disk full")
	copied := func(t *testing.T, limits timeouts.Limits, source *slowSource, w io.Writer) (int64, error) {
		source.ReadCloser = io.NopCloser(strings.NewReader("to be written, not read"))
		resp, err := (&timeouts.Transport{Limits: limits, Base: base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: source}, nil
		})}).RoundTrip(get(t, t.Context(), "http://server.example/"))
		require.NoError(t, err)
		return io.Copy(w, resp.Body)
	}
	idle := timeouts.Limits{Idle: 2 * time.Second}
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
	run("to the end", func(t *testing.T) {
		var w bytes.Buffer
		n, err := copied(t, idle, &slowSource{lines: 10, gap: 1900 * time.Millisecond}, &w)
		require.NoError(t, err)
		require.Equal(t, int64(50), n)
		require.Equal(t, strings.Repeat("line\n", 10), w.String())
	})
	run("it breaks", func(t *testing.T) {
		n, err := copied(t, idle, &slowSource{lines: 1, err: errBroken}, io.Discard)
		require.Equal(t, errBroken, err)
		require.Equal(t, int64(5), n)
	})
	run("the writer breaks with an odd error", func(t *testing.T) {
		_, err := copied(t, idle, &slowSource{lines: 1}, writer(func([]byte) (int, error) { return 0, severalErrors{errFull} }))
		require.Equal(t, severalErrors{errFull}, err)
	})
	run("the writer breaks", func(t *testing.T) {
		_, err := copied(t, idle, &slowSource{lines: 1}, writer(func([]byte) (int, error) { return 0, errFull }))
		require.Equal(t, errFull, err)
	})
	run("the writer is short", func(t *testing.T) {
		_, err := copied(t, idle, &slowSource{lines: 1}, writer(func(p []byte) (int, error) { return len(p) - 1, nil }))
		require.Equal(t, io.ErrShortWrite, err)
	})
	run("of one that can be written to as well", func(t *testing.T) {
		var w bytes.Buffer
		resp, err := (&timeouts.Transport{Limits: idle, Base: base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: struct {
				*slowSource
				io.Writer
			}{&slowSource{ReadCloser: http.NoBody, lines: 2}, &w}}, nil
		})}).RoundTrip(get(t, t.Context(), "http://server.example/"))
		require.NoError(t, err)
		_, err = io.Copy(resp.Body.(io.Writer), resp.Body.(io.WriterTo).(io.Reader))
		require.NoError(t, err)
		require.Equal(t, "line\nline\n", w.String())
	})
	run("a slow writer is no stalled server", func(t *testing.T) {
		_, err := copied(t, idle, &slowSource{lines: 3, gap: time.Second}, writer(func(p []byte) (int, error) {
			time.Sleep(time.Minute)
			return len(p), nil
		}))
		require.NoError(t, err)
	})
	run("silence", func(t *testing.T) {
		takes(t, 3*time.Second, func() {
			// The base does not heed the end of its context; its next line does not arrive.
			n, err := copied(t, idle, &slowSource{lines: 2, gap: 3 * time.Second}, io.Discard)
			isLimit(t, err, timeouts.Idle, 2*time.Second)
			require.Equal(t, int64(5), n)
		})
	})
	run("after the limit", func(t *testing.T) {
		resp, err := (&timeouts.Transport{Limits: timeouts.Limits{Total: time.Second}, Base: base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: &slowSource{ReadCloser: http.NoBody}}, nil
		})}).RoundTrip(get(t, t.Context(), "http://server.example/"))
		require.NoError(t, err)
		time.Sleep(time.Second + 1)
		_, err = io.Copy(io.Discard, resp.Body)
		isLimit(t, err, timeouts.Total, time.Second)
	})
}

// severalErrors cannot be compared.
type severalErrors []error

func (severalErrors) Error() string { return "several" }

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestErrorTexts(t *testing.T) {
	assert.EqualError(t, &timeouts.Error{Phase: timeouts.Total, Limit: time.Minute}, "timeouts: request not done within 1m0s")
	assert.Equal(t, "[total header idle Phase(3)]", fmt.Sprint([]timeouts.Phase{timeouts.Total, timeouts.Header, timeouts.Idle, 3}))
}

// FuzzBody reads a body that gives its data in random pieces and ends in random
// ways, with and without limits around it: all that can be seen is the same.
func FuzzBody(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0, 10}, uint8(0), uint8(3), false)
	f.Add([]byte{}, uint8(1), uint8(1), true)
	f.Add([]byte{255, 0, 0, 7}, uint8(2), uint8(200), false)
	f.Add([]byte{5, 5}, uint8(3), uint8(4), true)
	f.Fuzz(func(t *testing.T, pieces []byte, ending, size uint8, copies bool) {
		limits := timeouts.Limits{Total: time.Hour, Header: time.Hour, Idle: time.Hour}
		body := func() *piecewise {
			return &piecewise{pieces: pieces, together: ending&1 != 0, err: []error{io.EOF, errors.ErrUnsupported}[ending>>1&1]}
		}
		wrapped := body()
		resp, err := (&timeouts.Transport{Limits: limits, Base: base(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: wrapped}, nil
		})}).RoundTrip(get(t, t.Context(), "http://server.example/"))
		require.NoError(t, err)
		bare := body()
		if copies {
			var want, got bytes.Buffer
			_, wantErr := io.Copy(&want, bare)
			_, err := io.Copy(&got, resp.Body)
			require.Equal(t, wantErr, err)
			require.Equal(t, want.Bytes(), got.Bytes())
		} else {
			want, got := make([]byte, size), make([]byte, size)
			for range len(pieces) + 3 {
				wantN, wantErr := bare.Read(want)
				n, err := resp.Body.Read(got)
				require.Equal(t, wantN, n)
				require.Equal(t, wantErr, err)
				require.Equal(t, want[:n], got[:n])
			}
		}
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 1, wrapped.closed)
	})
}

// piecewise gives one piece with each Read, and its error together with the last
// piece or after it.
type piecewise struct {
	pieces   []byte // their lengths
	together bool
	err      error
	closed   int
}

func (b *piecewise) Read(p []byte) (n int, err error) {
	if len(b.pieces) == 0 {
		return 0, b.err
	}
	n = min(len(p), int(b.pieces[0]))
	for i := range p[:n] {
		p[i] = byte(i + len(b.pieces))
	}
	b.pieces = b.pieces[1:]
	if b.together && len(b.pieces) == 0 {
		err = b.err
	}
	return n, err
}

func (b *piecewise) Close() error { b.closed++; return nil }
