package transport_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
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

	"github.com/hashicorp/go-cleanhttp"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

var quiet = slog.New(slog.DiscardHandler)

// base is a RoundTripper in one function.
type base func(*http.Request) (*http.Response, error)

func (b base) RoundTrip(req *http.Request) (*http.Response, error) { return b(req) }

// server is a base that counts its calls and answers as it is told.
type server struct {
	calls  atomic.Int64
	answer atomic.Pointer[base]
}

func (s *server) does(b base) { s.answer.Store(&b) }

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.calls.Add(1)
	return (*s.answer.Load())(req)
}

func newServer(answer base) *server {
	s := new(server)
	s.does(answer)
	return s
}

func newGate(t testing.TB, cfg transport.Config) *transport.Gate {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	gate, err := transport.New(cfg)
	require.NoError(t, err)
	return gate
}

func request(t testing.TB, ctx context.Context) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server.example/", nil)
	require.NoError(t, err)
	return req
}

// send makes a request and reads all of the answer.
func send(t testing.TB, rt http.RoundTripper) (status int, err error) {
	t.Helper()
	resp, err := rt.RoundTrip(request(t, context.Background()))
	if err != nil {
		require.Nil(t, resp)
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return resp.StatusCode, err
}

// trip makes ten calls to a server that answers 503.
func trip(t testing.TB, gate *transport.Gate, s *server) {
	t.Helper()
	s.does(httptestutil.Status(503, ""))
	for range 10 {
		status, err := send(t, gate)
		require.NoError(t, err)
		require.Equal(t, 503, status)
	}
	paused(t, gate, 2*time.Second)
}

func refused(t testing.TB, rt http.RoundTripper) {
	t.Helper()
	_, err := send(t, rt)
	require.ErrorIs(t, err, breaker.ErrOpen)
}

func paused(t testing.TB, gate *transport.Gate, remaining time.Duration) {
	t.Helper()
	s := gate.Breaker.Stats()
	require.Equal(t, breaker.Open, s.State)
	require.Equal(t, remaining, time.Until(s.Until))
}

func closed(t testing.TB, gate *transport.Gate, failures int) {
	t.Helper()
	s := gate.Breaker.Stats()
	require.Equal(t, breaker.Closed, s.State)
	require.Equal(t, failures, s.Failures)
}

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

func TestG1New(t *testing.T) {
	_, err := transport.New(transport.Config{
		Limits:  timeouts.Limits{Header: -1, Idle: -2},
		Breaker: breaker.Config{Jitter: 2, FailuresWindow: -1},
	})
	require.EqualError(t, err, `timeouts: Limits.Header is -1ns; accepted: > 0, or 0 for no limit
timeouts: Limits.Idle is -2ns; accepted: > 0, or 0 for no limit
breaker: FailuresWindow is -1ns; accepted: > 0, or 0 for 1m40s
breaker: Jitter is 2; accepted: >= 0 and < 1`)

	gate, err := transport.New(transport.Config{})
	require.NoError(t, err)
	limited := gate.Base.(*timeouts.Transport)
	require.Equal(t, timeouts.Limits{Total: time.Minute}, limited.Limits)
	require.IsType(t, cleanhttp.DefaultPooledTransport(), limited.Base)
	require.NotSame(t, http.DefaultTransport, limited.Base)

	require.Zero(t, newGate(t, transport.Config{Limits: timeouts.Limits{Total: -1}}).Base.(*timeouts.Transport).Limits.Total)

	bubble(t, "the deadline is a failure, and the limits are the config's", func(t *testing.T) {
		s := newServer(httptestutil.Hang())
		gate := newGate(t, transport.Config{Base: s, Limits: timeouts.Limits{Header: time.Second}})
		for range 10 {
			_, err := send(t, gate)
			var over *timeouts.Error
			require.ErrorAs(t, err, &over)
			require.Equal(t, timeouts.Header, over.Phase)
		}
		paused(t, gate, 2*time.Second)
	})
}

// D29: however a request is not made, its body is closed, unread.
func TestG2G3RequestBodyIsClosed(t *testing.T) {
	post := func(t *testing.T, ctx context.Context, rt http.RoundTripper) error {
		for _, body := range []io.ReadCloser{httptestutil.Body(t, "data"), nil, http.NoBody} {
			req := request(t, ctx)
			req.Method, req.Body = http.MethodPost, body
			resp, err := rt.RoundTrip(req)
			require.Nil(t, resp)
			require.Error(t, err)
			if body == nil || body == http.NoBody {
				continue
			}
			if _, readErr := body.Read(make([]byte, 1)); readErr == nil {
				t.Error("the body is still open")
			}
		}
		_, err := rt.RoundTrip(request(t, ctx))
		return err
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	bubble(t, "in a pause", func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s})
		trip(t, gate, s)
		require.ErrorIs(t, post(t, t.Context(), gate), breaker.ErrOpen)
		require.Equal(t, int64(10), s.calls.Load())
	})
	bubble(t, "during a trial", func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s})
		trip(t, gate, s)
		time.Sleep(2 * time.Second)
		s.does(httptestutil.Hang())
		ctx, end := context.WithCancel(t.Context())
		go gate.RoundTrip(request(t, ctx))
		synctest.Wait()
		require.ErrorIs(t, post(t, t.Context(), gate), breaker.ErrOpen)
		require.Equal(t, int64(11), s.calls.Load())
		end()
	})
	bubble(t, "cancelled before", func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s})
		require.Equal(t, context.Canceled, post(t, cancelled, gate))
		require.Zero(t, s.calls.Load())
	})
	bubble(t, "deadline before the end of the pause, waiting", func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s, Wait: true})
		trip(t, gate, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, post(t, ctx, gate), breaker.ErrOpen)
	})
}

func TestG2RefusalCostsNothing(t *testing.T) {
	gate := newGate(t, transport.Config{Base: base(httptestutil.Status(503, "")), Breaker: breaker.Config{InitialRecoveryDelay: time.Hour}})
	for range 10 {
		_, err := send(t, gate)
		require.NoError(t, err)
	}
	req := request(t, t.Context())
	require.Zero(t, testing.AllocsPerRun(100, func() { gate.RoundTrip(req) }))
}

// D58.
func TestG2RefusalIsRecognisable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s})
		trip(t, gate, s)
		time.Sleep(500 * time.Millisecond)
		_, err := (&http.Client{Transport: gate}).Get("http://server.example/")
		var open *breaker.OpenError
		require.ErrorAs(t, err, &open)
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.Equal(t, 1500*time.Millisecond, open.Remaining())
		require.Equal(t, transport.StatusError(503), open.Cause)
		require.EqualError(t, err, `Get "http://server.example/": breaker: sending is paused for another 1.5s, because of: 503 Service Unavailable`)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		var urlError *url.Error
		require.ErrorAs(t, err, &urlError)
		require.False(t, urlError.Timeout())
	})
}

// D36, through the chain.
func TestPausesDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s})
		trip(t, gate, s)
		for _, seconds := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			paused(t, gate, seconds*time.Second)
			time.Sleep(seconds*time.Second - time.Millisecond)
			refused(t, gate)
			time.Sleep(2 * time.Millisecond)
			status, err := send(t, gate)
			require.NoError(t, err)
			require.Equal(t, 503, status)
		}
		require.Equal(t, int64(20), s.calls.Load())
		time.Sleep(300 * time.Second)
		s.does(httptestutil.Status(200, "back"))
		_, err := send(t, gate)
		require.NoError(t, err)
		closed(t, gate, 0)
	})
}

// D15.
func TestLateAnswersDecideNothing(t *testing.T) {
	for _, status := range []int{200, 503} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(func(req *http.Request) (*http.Response, error) {
				time.Sleep(time.Second)
				return httptestutil.Status(status, "")(req)
			})
			gate := newGate(t, transport.Config{Base: s})
			late := make(chan int)
			go func() {
				got, _ := send(t, gate)
				late <- got
			}()
			synctest.Wait()
			trip(t, gate, s)
			require.Equal(t, status, <-late)
			paused(t, gate, time.Second)
			time.Sleep(500 * time.Millisecond)
			refused(t, gate)
			time.Sleep(500*time.Millisecond + 1)
			_, err := send(t, gate)
			require.NoError(t, err)
		})
	}
}

// D16.
func TestOneTrialAmongAHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s})
		trip(t, gate, s)
		time.Sleep(2001 * time.Millisecond)
		release := make(chan struct{})
		s.does(func(req *http.Request) (*http.Response, error) {
			<-release
			return httptestutil.Status(200, "")(req)
		})
		var refusals atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := send(t, gate); errors.Is(err, breaker.ErrOpen) {
					refusals.Add(1)
				}
			})
		}
		synctest.Wait()
		require.Equal(t, int64(11), s.calls.Load())
		require.Equal(t, int64(99), refusals.Load())
		close(release)
		wg.Wait()
		closed(t, gate, 0)
		for range 100 {
			wg.Go(func() { send(t, gate) })
		}
		wg.Wait()
		require.Equal(t, int64(111), s.calls.Load())
	})
}

// D14.
func TestG5TrialThatDoesNotReturn(t *testing.T) {
	for name, tt := range map[string]struct {
		base      base
		classify  policy.Classifier
		onChange  func(breaker.Change)
		recovered any
	}{
		"base panics": {
			base:      func(*http.Request) (*http.Response, error) { panic("boom") },
			recovered: "boom",
		},
		"base ends the goroutine": {
			base: func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil },
		},
		"classifier panics": {
			classify:  func(*http.Request, *http.Response, error) policy.Outcome { panic("unclassified") },
			recovered: "unclassified",
		},
		"hook panics": {
			onChange:  func(breaker.Change) { panic("hook") },
			recovered: "hook",
		},
	} {
		bubble(t, name, func(t *testing.T) {
			var arm atomic.Bool
			s := new(server)
			gate := newGate(t, transport.Config{
				Base: s,
				Classify: func(req *http.Request, resp *http.Response, err error) policy.Outcome {
					if tt.classify != nil && arm.Load() {
						return tt.classify(req, resp, err)
					}
					return policy.Only200(req, resp, err)
				},
				Breaker: breaker.Config{OnChange: func(c breaker.Change) {
					if tt.onChange != nil && arm.Load() && c.To == breaker.Open {
						tt.onChange(c)
					}
				}},
			})
			trip(t, gate, s)
			time.Sleep(2001 * time.Millisecond)

			arm.Store(true)
			s.does(func(req *http.Request) (*http.Response, error) {
				if tt.base != nil {
					return tt.base(req)
				}
				return &http.Response{StatusCode: 503, Body: httptestutil.Body(t, "closed, since nobody gets it")}, nil
			})
			var recovered any
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { recovered = recover() }()
				gate.RoundTrip(request(t, t.Context()))
			}()
			<-done
			require.Equal(t, tt.recovered, recovered)

			arm.Store(false)
			time.Sleep(4001 * time.Millisecond)
			s.does(httptestutil.Status(200, ""))
			status, err := send(t, gate)
			require.NoError(t, err)
			require.Equal(t, 200, status)
			closed(t, gate, 0)
		})
	}
}

// A panic before the request reaches the base leaves its body to the gate.
func TestG3BodyIsClosedWhenAllowPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s, Breaker: breaker.Config{OnChange: func(c breaker.Change) {
			if c.To == breaker.HalfOpen {
				panic("hook")
			}
		}}})
		trip(t, gate, s)
		time.Sleep(2 * time.Second)
		req := request(t, t.Context())
		req.Body = httptestutil.Body(t, "data")
		require.PanicsWithValue(t, "hook", func() { gate.RoundTrip(req) })
		paused(t, gate, 2*time.Second)
		require.Equal(t, int64(10), s.calls.Load())
	})
}

// D23, D32, and a response together with an error.
func TestG5BasesThatBreakTheContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(func(*http.Request) (*http.Response, error) { return nil, nil })
		gate := newGate(t, transport.Config{Base: s})
		for range 10 {
			_, err := send(t, gate)
			require.EqualError(t, err, "transport: base returned neither a response nor an error")
		}
		refused(t, gate)
	})

	errBoth := errors.New("both")
	gate := newGate(t, transport.Config{Base: base(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: httptestutil.Body(t, "closed")}, errBoth
	})})
	_, err := send(t, gate)
	require.Equal(t, errBoth, err)
	closed(t, gate, 1)

	for _, rt := range []interface {
		http.RoundTripper
		Wrap(http.RoundTripper) http.RoundTripper
	}{
		newGate(t, transport.Config{Limits: timeouts.Limits{Total: time.Minute, Header: time.Minute, Idle: time.Minute}}),
		&transport.Gate{},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for _, length := range []int64{0, -1, 5} {
				wrapped := rt.Wrap(base(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: 200, ContentLength: length}, nil
				}))
				req := request(t, t.Context())
				req.Method = method
				viaClient, clientErr := (&http.Client{Transport: wrapped}).Do(req)
				resp, err := wrapped.RoundTrip(req)
				if method == http.MethodGet && length > 0 {
					require.EqualError(t, err, "transport: base returned a response of 5 bytes without a body")
					require.Error(t, clientErr)
					continue
				}
				require.NoError(t, err)
				require.NoError(t, clientErr)
				for _, body := range []io.ReadCloser{resp.Body, viaClient.Body} {
					n, err := body.Read(make([]byte, 1))
					require.Zero(t, n)
					require.Equal(t, io.EOF, err)
					require.NoError(t, body.Close())
				}
			}
		}
	}
}

func TestG6Wait(t *testing.T) {
	waiting := func(t *testing.T, limits timeouts.Limits) (*transport.Gate, *server) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s, Wait: true, Limits: limits})
		trip(t, gate, s)
		return gate, s
	}
	bubble(t, "the deadline starts after the wait", func(t *testing.T) {
		gate, s := waiting(t, timeouts.Limits{Total: time.Second})
		s.does(httptestutil.Hang())
		start := time.Now()
		_, err := send(t, gate)
		var over *timeouts.Error
		require.ErrorAs(t, err, &over)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
	bubble(t, "one of those that wait is the trial", func(t *testing.T) {
		gate, s := waiting(t, timeouts.Limits{})
		release := make(chan struct{})
		s.does(func(req *http.Request) (*http.Response, error) {
			<-release
			return httptestutil.Status(200, "")(req)
		})
		var wg sync.WaitGroup
		start := time.Now()
		for range 50 {
			wg.Go(func() {
				status, err := send(t, gate)
				require.NoError(t, err)
				require.Equal(t, 200, status)
				require.Equal(t, 5*time.Second, time.Since(start))
			})
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, int64(11), s.calls.Load())
		close(release)
		wg.Wait()
		require.Equal(t, int64(60), s.calls.Load())
	})
	bubble(t, "a failed trial makes the others wait on", func(t *testing.T) {
		gate, s := waiting(t, timeouts.Limits{})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				status, err := send(t, gate)
				require.NoError(t, err)
				require.Equal(t, 503, status)
			})
		}
		start := time.Now()
		wg.Wait()
		require.Equal(t, (2+4+8+16+32)*time.Second, time.Since(start))
		require.Equal(t, int64(15), s.calls.Load())
	})
	bubble(t, "bounded by the context", func(t *testing.T) {
		gate, s := waiting(t, timeouts.Limits{})
		cause := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		start := time.Now()
		_, err := gate.RoundTrip(request(t, ctx))
		require.Equal(t, cause, err)
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, int64(10), s.calls.Load())
	})
	bubble(t, "refused at once where the deadline lies before the end of the pause", func(t *testing.T) {
		gate, _ := waiting(t, timeouts.Limits{})
		start := time.Now()
		_, err := (&http.Client{Transport: gate, Timeout: 1999 * time.Millisecond}).Get("http://server.example/")
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.Zero(t, time.Since(start))
	})
}

func TestG8Wrap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s, Limits: timeouts.Limits{Total: time.Second}})
		other := newServer(httptestutil.Hang())
		var wrap func(http.RoundTripper) http.RoundTripper = gate.Wrap // the form that client-go takes
		wrapped := wrap(other)
		_, err := send(t, wrapped)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		closed(t, gate, 1)

		for range 9 {
			send(t, wrapped)
		}
		refused(t, gate)
		refused(t, wrapped)
		require.Zero(t, s.calls.Load())

		gate.Wait, gate.Classify = true, policy.ServerErrors
		wrapped = gate.Wrap(base(httptestutil.Status(404, "")))
		start := time.Now()
		_, err = send(t, wrapped)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(start))
		closed(t, gate, 0)

		literal := &transport.Gate{Base: other}
		wrapped = literal.Wrap(base(httptestutil.Status(200, "")))
		status, err := send(t, wrapped)
		require.NoError(t, err)
		require.Equal(t, 200, status)
	})
	require.Equal(t, http.DefaultTransport, (&transport.Gate{}).Wrap(http.DefaultTransport).(*transport.Gate).Base)
}

func TestG8Chain(t *testing.T) {
	var order []string
	named := func(name string) transport.Middleware {
		return func(next http.RoundTripper) http.RoundTripper {
			return base(func(req *http.Request) (*http.Response, error) {
				order = append(order, name)
				return next.RoundTrip(req)
			})
		}
	}
	rt := transport.Chain(base(httptestutil.Status(200, "")), named("outermost"), named("middle"), named("innermost"))
	_, err := send(t, rt)
	require.NoError(t, err)
	require.Equal(t, []string{"outermost", "middle", "innermost"}, order)
	require.Equal(t, http.DefaultTransport, transport.Chain(nil))
}

// A literal gates as its fields say, and a nil field means what its comment says.
func TestGateLiteral(t *testing.T) {
	real := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201) }))
	defer real.Close()
	b, err := breaker.New(breaker.Config{})
	require.NoError(t, err)
	gate := &transport.Gate{Breaker: b}
	resp, err := (&http.Client{Transport: gate}).Get(real.URL)
	require.NoError(t, err)
	require.Equal(t, 201, resp.StatusCode)
	closed(t, gate, 1) // Only200, over http.DefaultTransport
	gate.CloseIdleConnections()

	gate = &transport.Gate{Base: base(httptestutil.Status(503, "data"))}
	for range 100 { // no breaker, no pause
		status, err := send(t, gate)
		require.NoError(t, err)
		require.Equal(t, 503, status)
	}
	gate = &transport.Gate{Base: base(httptestutil.Truncate(200, "data"))}
	_, err = send(t, gate)
	require.Equal(t, io.ErrUnexpectedEOF, err)
}

// D05.
func TestG10DeadOnArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s})
		trip(t, gate, s)
		time.Sleep(2001 * time.Millisecond) // the next one would be the trial
		cause := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		for range 5 {
			req := request(t, ctx)
			req.Method, req.Body = http.MethodPost, httptestutil.Body(t, "data")
			_, err := gate.RoundTrip(req)
			require.Equal(t, cause, err)
		}
		require.Equal(t, int64(10), s.calls.Load())
		require.Equal(t, breaker.HalfOpen, gate.Breaker.State())
		require.Equal(t, 2*time.Second, gate.Breaker.Stats().Delay)
		s.does(httptestutil.Status(200, ""))
		_, err := send(t, gate)
		require.NoError(t, err)
		closed(t, gate, 0)
	})
}

// D19.
func TestCancelledTrialGivesNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		gate := newGate(t, transport.Config{Base: s})
		trip(t, gate, s)
		time.Sleep(2001 * time.Millisecond)
		s.does(httptestutil.Hang())
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, nil)
		time.AfterFunc(time.Second, cancel)
		_, err := gate.RoundTrip(request(t, ctx))
		require.ErrorIs(t, err, context.Canceled)
		paused(t, gate, 2*time.Second)
		s.does(httptestutil.Status(503, ""))
		refused(t, gate)
		time.Sleep(1999 * time.Millisecond)
		refused(t, gate)
		time.Sleep(2 * time.Millisecond)
		_, err = send(t, gate)
		require.NoError(t, err)
		paused(t, gate, 4*time.Second)
		require.Equal(t, int64(12), s.calls.Load())
	})
}

// onEach runs f against a real server, once on HTTP/1.1 and once on HTTP/2.
func onEach(t *testing.T, handler http.HandlerFunc, f func(t *testing.T, s *httptest.Server)) {
	for name, start := range map[string]func(*httptest.Server){
		"HTTP/1.1": (*httptest.Server).Start,
		"HTTP/2":   func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(handler)
			start(s)
			defer s.Close()
			f(t, s)
		})
	}
}

// D08.
func TestCallersCancellationIsNotCounted(t *testing.T) {
	var served atomic.Int64
	onEach(t, func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		<-r.Context().Done()
	}, func(t *testing.T, s *httptest.Server) {
		served.Store(0)
		gate := newGate(t, transport.Config{Base: s.Client().Transport})
		for n := range 26 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for served.Load() <= int64(n) {
					runtime.Gosched()
				}
				cancel()
			}()
			req := request(t, ctx)
			req.URL, _ = url.Parse(s.URL)
			_, err := (&http.Client{Transport: gate}).Do(req)
			require.ErrorIs(t, err, context.Canceled)
		}
		closed(t, gate, 0)
		require.Equal(t, int64(26), served.Load())
	})
}

// D09: what net/http makes of its own Timeout varies; the outcome does not.
func TestClientTimeoutIsAlwaysAFailure(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	sent := newServer(s.Client().Transport.RoundTrip)
	gate := newGate(t, transport.Config{Base: sent, Breaker: breaker.Config{FailuresToEnterRecovery: 1000}})
	client := &http.Client{Transport: gate, Timeout: 5 * time.Millisecond}
	for range 200 {
		_, err := client.Get(s.URL)
		require.Error(t, err)
	}
	closed(t, gate, int(sent.calls.Load())) // on a busy machine, some are over before they are sent
	require.Greater(t, sent.calls.Load(), int64(20))
}

// D11.
func TestTimeoutInsideTheBaseIsAFailure(t *testing.T) {
	onEach(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(t *testing.T, s *httptest.Server) {
		base := s.Client().Transport.(*http.Transport)
		base.ResponseHeaderTimeout = 30 * time.Millisecond
		gate := newGate(t, transport.Config{Base: base, Limits: timeouts.Limits{Total: -1}})
		for range 10 {
			_, err := (&http.Client{Transport: gate}).Get(s.URL)
			var urlError *url.Error
			require.ErrorAs(t, err, &urlError)
			require.True(t, urlError.Timeout())
		}
		require.Equal(t, breaker.Open, gate.Breaker.State())
	})
}

// D12: each hop of a redirect is a call.
func TestRedirectsCountForThemselves(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a" {
			http.Redirect(w, r, "/ok", http.StatusFound)
		}
	}))
	defer s.Close()
	gate := newGate(t, transport.Config{})
	resp, err := (&http.Client{Transport: gate}).Get(s.URL + "/a")
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	closed(t, gate, 1)
}

// D33: 307 and 308 resend the body, through all layers.
func TestRedirectsResendTheBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a":
			http.Redirect(w, r, "/b", http.StatusTemporaryRedirect)
		case "/b":
			http.Redirect(w, r, "/c", http.StatusPermanentRedirect)
		default:
			io.Copy(w, r.Body)
		}
	}))
	defer s.Close()
	calls := 0
	gate := newGate(t, transport.Config{
		Limits: timeouts.Limits{Total: time.Minute, Header: time.Minute, Idle: time.Minute},
		Base: base(func(req *http.Request) (*http.Response, error) {
			calls++
			require.NotNil(t, req.GetBody)
			require.Equal(t, int64(7), req.ContentLength)
			return s.Client().Transport.RoundTrip(req)
		}),
	})
	resp, err := (&http.Client{Transport: gate}).Post(s.URL+"/a", "text/plain", strings.NewReader("payload"))
	require.NoError(t, err)
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "payload", string(data))
	require.Equal(t, 3, calls)
	closed(t, gate, 2)
}

// D56, through a client.
func TestHookMaySendARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		var client *http.Client
		var outcomes []string
		gate := newGate(t, transport.Config{Base: s, Breaker: breaker.Config{OnChange: func(c breaker.Change) {
			_, err := client.Get("http://server.example/")
			outcome := c.To.String() + " sent"
			if errors.Is(err, breaker.ErrOpen) {
				outcome = c.To.String() + " refused"
			}
			outcomes = append(outcomes, outcome)
		}}})
		client = &http.Client{Transport: gate}
		trip(t, gate, s)
		time.Sleep(2 * time.Second)
		send(t, gate)
		time.Sleep(4 * time.Second)
		s.does(httptestutil.Status(200, ""))
		_, err := send(t, gate)
		require.NoError(t, err)
		require.Equal(t, []string{"open refused", "half-open refused", "open refused", "half-open refused", "closed sent"}, outcomes)
		closed(t, gate, 0)
	})
}
