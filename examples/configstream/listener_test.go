package configstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker/backoff"
	"github.com/respitehttp/respite/examples/configstream"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

var errStop = errors.New("stopped by the test")

// cluster is a set of nodes, by host; one without a handler refuses connections. They
// are all one server in memory, so that it works in a bubble.
type cluster struct {
	start  time.Time
	server *httptestutil.Server

	mu       sync.Mutex // guards the following
	handlers map[string]http.HandlerFunc
	attempts []attempt
	open     int // streams
	mostOpen int
}

type attempt struct {
	at   time.Duration // since the start
	host string
}

func newCluster(t *testing.T, handlers map[string]http.HandlerFunc) *cluster {
	c := &cluster{start: time.Now(), handlers: handlers}
	c.server = httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.handler(r.Host)(w, r)
	}))
	return c
}

func (c *cluster) handler(host string) http.HandlerFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handlers[host]
}

func (c *cluster) set(host string, h http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[host] = h
}

// RoundTrip makes the cluster the transport of a listener.
func (c *cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.attempts = append(c.attempts, attempt{time.Since(c.start), req.URL.Host})
	refuse := c.handlers[req.URL.Host] == nil
	c.mu.Unlock()
	if refuse {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	resp, err := c.server.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.open++
	c.mostOpen = max(c.mostOpen, c.open)
	c.mu.Unlock()
	resp.Body = &openBody{ReadCloser: resp.Body, c: c}
	return resp, nil
}

type openBody struct {
	io.ReadCloser
	c    *cluster
	once sync.Once
}

func (b *openBody) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(func() {
		b.c.mu.Lock()
		defer b.c.mu.Unlock()
		b.c.open--
	})
	return err
}

// tried returns the attempts so far.
func (c *cluster) tried() []attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.attempts)
}

// at returns when the node was tried; "" is any node.
func (c *cluster) at(host string) (times []time.Duration) {
	for _, a := range c.tried() {
		if host == "" || a.host == host {
			times = append(times, a.at)
		}
	}
	return times
}

// run is a Run of a Listener under test.
type run struct {
	*configstream.Listener
	start   time.Time
	updates []string // host and document; to be read once stopped
	got     []time.Duration
	records records

	cancel context.CancelCauseFunc
	ended  chan struct{}
	err    error
}

// listen starts Run with the given nodes, and stops it with the test.
func listen(t *testing.T, c *cluster, cfg configstream.Config, nodes ...string) *run {
	r := &run{start: time.Now()}
	if cfg.Nodes == nil {
		cfg.Nodes = func(context.Context) ([]string, error) { return nodes, nil }
	}
	if cfg.Transport == nil {
		cfg.Transport = c
	}
	onConfig := cfg.OnConfig
	cfg.OnConfig = func(u configstream.Update) {
		r.updates = append(r.updates, u.Node+" "+string(u.Config))
		r.got = append(r.got, time.Since(r.start))
		if onConfig != nil {
			onConfig(u)
		}
	}
	cfg.Logger = slog.New(&r.records)
	var err error
	r.Listener, err = configstream.New(cfg)
	require.NoError(t, err)
	r.again(t)
	return r
}

// again starts Run once more.
func (r *run) again(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel, r.ended = cancel, make(chan struct{})
	go func() {
		defer close(r.ended)
		r.err = r.Run(ctx)
	}()
	t.Cleanup(r.stop)
}

// pass lets time pass, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *run) stop() {
	r.cancel(errStop)
	<-r.ended
}

// records is a slog.Handler that keeps the records as lines.
type records struct {
	mu    sync.Mutex
	lines []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	line := record.Level.String() + " " + record.Message
	record.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	return nil
}

// with returns the lines that have the given text in them.
func (r *records) with(text string) (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// sends writes the parts of a stream, each at once, and then stays silent until the
// listener goes; "close" ends it, "abort" breaks it, and a duration is a pause.
func sends(parts ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w).Flush
		flush()
		for _, part := range parts {
			switch part := part.(type) {
			case time.Duration:
				select {
				case <-time.After(part):
				case <-r.Context().Done():
					return
				}
			case string:
				switch part {
				case "close":
					return
				case "abort":
					panic(http.ErrAbortHandler)
				}
				io.WriteString(w, part)
				flush()
			}
		}
		<-r.Context().Done()
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// S1: a round tries every node once, in random order. D54: the first is not the last of
// the round before.
func TestS1Rounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		r := listen(t, c, configstream.Config{}, "a", "http://b", "c:80/", "d")
		pass(4000 * time.Second)
		r.stop()

		orders, last := map[string]int{}, ""
		for round := range slices.Chunk(c.tried(), 4) {
			var hosts []string
			for _, a := range round {
				assert.Equal(t, round[0].at, a.at)
				hosts = append(hosts, a.host)
			}
			orders[strings.Join(hosts, " ")]++
			assert.NotEqual(t, last, hosts[0])
			last = hosts[3]
			slices.Sort(hosts)
			assert.Equal(t, []string{"a", "b", "c:80", "d"}, hosts)
		}
		assert.Len(t, c.tried(), 4*402) // at 0, 0.1, 1.1, 11.1 ... 3991.1 s
		assert.Len(t, orders, 24, "of 402 rounds; each order has its turn")
	})
}

// S1: the list is asked for anew each round.
func TestS1ListIsAskedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		asked := 0
		r := listen(t, c, configstream.Config{Nodes: func(context.Context) ([]string, error) {
			asked++
			return []string{fmt.Sprint("a", asked), fmt.Sprint("b", asked)}, nil
		}})
		pass(20 * time.Second)
		r.stop()
		var rounds []string
		for round := range slices.Chunk(c.tried(), 2) {
			pair := []string{round[0].host, round[1].host}
			slices.Sort(pair)
			rounds = append(rounds, strings.Join(pair, " "))
		}
		assert.Equal(t, []string{"a1 b1", "a2 b2", "a3 b3", "a4 b4"}, rounds)
	})
}

// S1: ctx is checked before each node.
func TestS1ContextBeforeEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		tried := 0
		l, err := configstream.New(configstream.Config{
			Nodes: func(context.Context) ([]string, error) { return []string{"a", "b", "c"}, nil },
			Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				tried++
				cancel(errStop)
				return nil, io.EOF
			}),
		})
		require.NoError(t, err)
		assert.Equal(t, errStop, l.Run(ctx))
		assert.Equal(t, 1, tried)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// S1: equal addresses are one node, a bad one is left out, and a list that fails or is
// empty is a round that failed.
func TestS1NodeLists(t *testing.T) {
	for name, test := range map[string]struct {
		nodes []string
		err   error
		want  []string
		log   string
	}{
		"equal":    {[]string{"a", "http://a", "a/", "HTTP://a/#x", "a?"}, nil, []string{"a"}, "WARN node failed node=http://a error=no answer: dial tcp: connect: connection refused"},
		"bad":      {[]string{"http://user:secret@", "a"}, nil, []string{"a"}, "WARN node failed position=1 error=its address is neither an http or https URL nor a host"},
		"empty":    {nil, nil, nil, "WARN no nodes"},
		"failed":   {[]string{"a"}, errors.New("no list"), nil, "WARN no nodes error=no list"},
		"only bad": {[]string{"ftp://a", ""}, nil, nil, "WARN node failed position=2 error=its address is neither an http or https URL nor a host"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, nil)
				asked := 0
				r := listen(t, c, configstream.Config{Nodes: func(context.Context) ([]string, error) {
					asked++
					return test.nodes, test.err
				}})
				pass(50 * time.Millisecond)
				r.stop()
				var hosts []string
				for _, a := range c.tried() {
					hosts = append(hosts, a.host)
				}
				assert.Equal(t, test.want, hosts)
				assert.Len(t, r.records.with(test.log), 1, r.records.lines)

				r.again(t)
				pass(time.Minute)
				r.stop()
				assert.Equal(t, 1+2+1+5, asked, "0, 0.1, 1.1, 11.1 ... 51.1 s")
			})
		})
	}
}

// S2: 100 ms, 1 s, 10 s, 10 s ... between the rounds.
func TestS2Delays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		r := listen(t, c, configstream.Config{}, "a")
		pass(35 * time.Second)
		r.stop()
		ms := time.Millisecond
		assert.Equal(t, []time.Duration{0, 100 * ms, 1100 * ms, 11100 * ms, 21100 * ms, 31100 * ms}, c.at("a"))
		assert.Equal(t, []string{"INFO round over wait=100ms"}, r.records.with("wait=100ms"))
		assert.Len(t, r.records.with("INFO round over wait=10s"), 4)
	})
}

// S2: any Backoff that New takes gives waits above zero.
func TestS2OwnBackoff(t *testing.T) {
	for _, b := range []backoff.Exponential{
		{Initial: time.Second, Max: 30 * time.Second},
		{Initial: time.Millisecond, Max: time.Millisecond, Jitter: 0.99},
		{Max: 2 * time.Second, Jitter: 0.5},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, nil)
			r := listen(t, c, configstream.Config{Backoff: b}, "a")
			pass(time.Second)
			r.stop()
			at := c.at("a")
			for i := 1; i < len(at); i++ {
				require.Positive(t, at[i]-at[i-1])
				require.LessOrEqual(t, at[i]-at[i-1], b.Max)
			}
			assert.Equal(t, b.Max == time.Millisecond, len(at) > 1000)
		})
	}
}

// S3: what resets the delay, and what does not. The node is down for three rounds, then
// answers once, then is down again.
func TestS3Reset(t *testing.T) {
	const reset, kept = 100 * time.Millisecond, 10 * time.Second
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    time.Duration
	}{
		"document, end":            {sends(`{"rev":1}`+"\n", "close"), reset},
		"heartbeat, end":           {sends("\n", "close"), reset},
		"CRLF heartbeat, end":      {sends("\r\n", "close"), reset},
		"heartbeat, break":         {sends("\n", "abort"), reset},
		"document, invalid":        {sends(`{"rev":1}`+"\n", "nonsense\n"), reset},
		"document, half a line":    {sends(`{"rev":1}`+"\n", `{"re`, "close"), reset},
		"old document":             {sends(`{"rev":0}`+"\n", "close"), reset},
		"answer, end":              {sends("close"), kept},
		"answer, break":            {sends("abort"), kept},
		"invalid line":             {sends("nonsense\n"), kept},
		"other space":              {sends("\v\n"), kept},
		"two documents on a line":  {sends("{}{}\n"), kept},
		"half a line, end":         {sends(`{"rev":1}`, "close"), kept},
		"half a heartbeat":         {sends(" ", "close"), kept},
		"line above the limit":     {sends(strings.Repeat(" ", 1000) + "\n"), kept},
		"status":                   {status(503), kept},
		"status with a valid line": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); io.WriteString(w, "{}\n") }, kept},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, map[string]http.HandlerFunc{})
				r := listen(t, c, configstream.Config{MaxLine: 1000}, "a")
				pass(11 * time.Second)
				c.set("a", func(w http.ResponseWriter, r *http.Request) {
					c.set("a", nil)
					test.handler(w, r)
				})
				pass(30 * time.Second)
				r.stop()

				at := c.at("a")
				require.Equal(t, 11100*time.Millisecond, at[3])
				assert.Equal(t, test.want, at[4]-at[3])
				if test.want == reset { // not to zero, and growing anew from there
					assert.Equal(t, time.Second, at[5]-at[4])
				}
			})
		})
	}
}

// S3: the delay is reset by the line, not by the end of the stream, so a line on one
// node counts for a round that then fails on all others.
func TestS3ResetBySomeNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[string]http.HandlerFunc{"a": sends("\n", "close")})
		r := listen(t, c, configstream.Config{}, "a", "b", "c")
		pass(time.Minute - time.Millisecond)
		r.stop()
		at := c.at("a")
		assert.Len(t, at, 600)
		for i := 1; i < len(at); i++ {
			assert.Equal(t, 100*time.Millisecond, at[i]-at[i-1])
		}
	})
}

// S4: the header has 10 s, and silence 5 minutes.
func TestS4Deadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[string]http.HandlerFunc{
			"mute":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"silent": sends("\n", 4*time.Minute, `{"re`, 4*time.Minute, "v\":1}\n"),
		})
		muted := listen(t, c, configstream.Config{}, "mute")
		silent := listen(t, c, configstream.Config{}, "silent")
		pass(20 * time.Minute)
		muted.stop()
		silent.stop()
		assert.Equal(t, []time.Duration{0, 10100 * time.Millisecond}, c.at("mute")[:2])
		assert.Contains(t, muted.records.lines, "WARN node failed node=http://mute error=no answer: timeouts: no response header within 10s")
		assert.Equal(t, []time.Duration{0, 13*time.Minute + 100*time.Millisecond}, c.at("silent"))
		assert.Contains(t, silent.records.lines, "WARN node failed node=http://silent error=timeouts: no data of the response body for 5m0s")
		assert.Equal(t, []string{`silent {"rev":1}`}, silent.updates)
	})
}

// S4: the stream has no total deadline, not even where Transport has one; and the time
// that OnConfig takes is no silence.
func TestS4NoTotalDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats := []any{`{"rev":1}` + "\n"}
		for range 1000 {
			beats = append(beats, 299*time.Second, "\n")
		}
		c := newCluster(t, map[string]http.HandlerFunc{"a": sends(beats...)})
		gate, err := transport.New(transport.Config{Base: c, Limits: timeouts.Limits{Total: time.Minute, Header: time.Second, Idle: time.Second}})
		require.NoError(t, err)
		r := listen(t, c, configstream.Config{
			Transport: gate,
			OnConfig:  func(configstream.Update) { time.Sleep(time.Hour) },
		}, "a")
		pass(72 * time.Hour)
		r.stop()
		assert.Equal(t, []time.Duration{0}, c.at("a"))
		assert.Equal(t, []string{"INFO stream begun node=http://a"}, r.records.lines)
	})
}

// S4: a line of 20 MiB, its newline included, is taken; one byte more is an error that
// names the limit.
func TestS4LineLimit(t *testing.T) {
	for extra, want := range []string{
		"INFO stream ended node=http://a",
		"WARN node failed node=http://a error=a line is longer than the limit of 20971520 bytes",
	} {
		synctest.Test(t, func(t *testing.T) {
			heartbeat := strings.Repeat(" ", 20<<20-1+extra) + "\n"
			r := listen(t, nil, configstream.Config{Transport: roundTripper(httptestutil.Status(200, heartbeat))}, "a")
			pass(50 * time.Millisecond)
			r.stop()
			assert.Equal(t, want, r.records.lines[1])
		})
	}
}

// S5: the host of the node that sent it is put into each document.
func TestS5Host(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		doc := sends(`["$HOST:11210","$HOST"]`+"\n", "close")
		c := newCluster(t, map[string]http.HandlerFunc{"10.0.0.1:8091": doc, "[::1]:8091": doc, "[fe80::1]": doc, "db": doc})
		r := listen(t, c, configstream.Config{}, "10.0.0.1:8091", "http://user:secret@[::1]:8091/x", "fe80::1", "http://db")
		pass(50 * time.Millisecond)
		r.stop()
		slices.Sort(r.updates)
		assert.Equal(t, []string{
			`10.0.0.1:8091 ["10.0.0.1:11210","10.0.0.1"]`,
			`fe80::1 ["[fe80::1]:11210","fe80::1"]`,
			`http://db ["db:11210","db"]`,
			`http://user:secret@[::1]:8091/x ["[::1]:11210","::1"]`,
		}, r.updates)
	})
}

// S5: the path and its query are appended to the address, and user info becomes Basic
// authorization.
func TestS5Request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := configstream.New(configstream.Config{
			Nodes: func(context.Context) ([]string, error) { return []string{"http://user:secret@a:1/base?x=1#f"}, nil },
			Path:  "/pools/main%2F1?y=2",
			Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				assert.Equal(t, http.MethodGet, req.Method)
				assert.Equal(t, "a:1", req.URL.Host)
				assert.Equal(t, "/base/pools/main%2F1?x=1&y=2", req.URL.RequestURI())
				user, password, _ := req.BasicAuth()
				assert.Equal(t, "user secret", user+" "+password)
				assert.Equal(t, "application/json", req.Header.Get("Accept"))
				assert.Nil(t, req.Body)
				return nil, io.EOF
			}),
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, l.Run(ctx))
	})
}

// S6: anything but 200 is an error, next node; 401 and 403 are reported as such; no
// redirect is followed.
func TestS6Statuses(t *testing.T) {
	for code, want := range map[int]string{
		201: "WARN node failed node=http://bad error=201 Created",
		204: "WARN node failed node=http://bad error=204 No Content",
		206: "WARN node failed node=http://bad error=206 Partial Content",
		302: "WARN node failed node=http://bad error=302 Found",
		304: "WARN node failed node=http://bad error=304 Not Modified",
		307: "WARN node failed node=http://bad error=307 Temporary Redirect",
		401: "WARN node refuses the credentials node=http://bad status=401",
		403: "WARN node refuses the credentials node=http://bad status=403",
		404: "WARN node failed node=http://bad error=404 Not Found",
		500: "WARN node failed node=http://bad error=500 Internal Server Error",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, map[string]http.HandlerFunc{
				"bad": func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", []string{"http://elsewhere/", "http://no%zzhost/"}[code%2])
					w.WriteHeader(code)
				},
				"good": sends("{}\n", "close"),
			})
			r := listen(t, c, configstream.Config{}, "bad", "good")
			pass(50 * time.Millisecond)
			r.stop()
			assert.Len(t, c.at("bad"), 1)
			assert.Len(t, c.at("good"), 1)
			assert.Len(t, r.updates, 1)
			assert.Contains(t, r.records.lines, want)
			assert.Empty(t, c.at("elsewhere"))
		})
	}
}

// S7: Run returns when its context ends, whatever it is doing, with the cause; nothing
// is logged as a warning or an error, no further node is tried, and nothing is left.
func TestS7EndOfContext(t *testing.T) {
	release := make(chan struct{})
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		cfg     configstream.Config
		longest time.Duration
	}{
		"in the header":     {handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"in the stream":     {handler: sends("{}\n")},
		"in half a line":    {handler: sends(`{"re`)},
		"in a wait":         {handler: sends("close"), cfg: configstream.Config{Backoff: backoff.Exponential{Initial: time.Hour}}},
		"in a dial":         {cfg: configstream.Config{Transport: &http.Transport{DialContext: hangingDial}}},
		"in a TLS dial":     {cfg: configstream.Config{Transport: &http.Transport{DialTLSContext: hangingDial}}},
		"in any request":    {cfg: configstream.Config{Transport: roundTripper(httptestutil.Hang())}},
		"in Nodes":          {cfg: configstream.Config{Nodes: func(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }}},
		"in deaf Nodes":     {cfg: configstream.Config{Nodes: func(context.Context) ([]string, error) { <-release; return []string{"x"}, nil }}, longest: 10 * time.Millisecond},
		"in deaf OnConfig":  {handler: sends("{}\n{}\n"), cfg: configstream.Config{OnConfig: func(configstream.Update) { <-release }}, longest: 10 * time.Millisecond},
		"in brief OnConfig": {handler: sends("{}\n{}\n"), cfg: configstream.Config{OnConfig: func(configstream.Update) { time.Sleep(time.Second + time.Millisecond) }}, longest: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				c := newCluster(t, map[string]http.HandlerFunc{"a": test.handler, "https://a": test.handler})
				nodes := []string{"a"}
				if name == "in a TLS dial" {
					nodes = []string{"https://a"}
				}
				r := listen(t, c, test.cfg, nodes...)
				pass(time.Second)
				lines := len(r.records.lines)
				r.stop()
				assert.LessOrEqual(t, time.Since(r.start)-time.Second, test.longest)
				assert.Equal(t, errStop, r.err)
				assert.Len(t, r.records.lines, lines)
				assert.Empty(t, r.records.with("ERROR"))
				assert.Zero(t, c.open)
				attempts, updates := len(c.tried()), len(r.updates)

				close(release)
				pass(time.Hour)
				assert.Len(t, c.tried(), attempts)
				assert.Len(t, r.updates, updates)
			})
		})
	}
}

func hangingDial(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// S7: with a context that is over already, no node is asked for.
func TestS7ContextOverBeforeRun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	l, err := configstream.New(configstream.Config{Nodes: func(context.Context) ([]string, error) {
		t.Error("asked")
		return nil, nil
	}})
	require.NoError(t, err)
	assert.Equal(t, errStop, l.Run(ctx))
}

// S7: a second Run is refused while one runs; after it, Run can be called again, and
// what is held stays.
func TestS7SecondRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[string]http.HandlerFunc{"a": sends(`{"rev":1}` + "\n")})
		r := listen(t, c, configstream.Config{}, "a")
		pass(time.Second)
		assert.EqualError(t, r.Run(t.Context()), "configstream: Run is running already")
		r.stop()
		u, ok := r.Latest()
		assert.True(t, ok)

		r.again(t)
		pass(time.Second)
		r.stop()
		assert.Equal(t, []string{`a {"rev":1}`}, r.updates, "the second is not newer")
		again, _ := r.Latest()
		assert.Equal(t, u, again)
		assert.Len(t, c.tried(), 2)
	})
}

// S7, S8: while an OnConfig that the end of Run has left behind is still at work, the
// next Run calls no other.
func TestS7CallsStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[string]http.HandlerFunc{"a": sends(`{"rev":1}`+"\n", time.Minute, `{"rev":2}`+"\n")})
		running := 0
		r := listen(t, c, configstream.Config{OnConfig: func(configstream.Update) {
			running++
			assert.Equal(t, 1, running)
			time.Sleep(10 * time.Minute)
			running--
		}}, "a")
		pass(time.Second)
		r.stop()
		assert.Equal(t, 1010*time.Millisecond, time.Since(r.start))

		r.again(t)
		pass(5 * time.Minute)
		r.stop() // in the wait for the first call
		assert.Len(t, r.updates, 1)
		u, _ := r.Latest()
		assert.EqualValues(t, 1, u.Revision.Rev, "what OnConfig has not seen is not held")

		r.again(t)
		pass(20 * time.Minute)
		r.stop()
		assert.Equal(t, []string{`a {"rev":1}`, `a {"rev":2}`}, r.updates)
		assert.Equal(t, 10*time.Minute, r.got[1])
	})
}

// S8: a configuration that is not newer than the one held is dropped.
func TestS8Revisions(t *testing.T) {
	for name, test := range map[string]struct{ held, next string }{
		"same":                     {`{"rev":5}`, `{"rev":5,"x":1}`},
		"older":                    {`{"rev":5}`, `{"rev":4}`},
		"older epoch":              {`{"revEpoch":2,"rev":5}`, `{"revEpoch":1,"rev":99}`},
		"no epoch is 0":            {`{"revEpoch":1,"rev":5}`, `{"rev":99}`},
		"other key":                {`{"rev":5}`, `{"rev":4,"REV":99,"revepoch":9}`},
		"not at the top":           {`{"rev":5}`, `{"rev":4,"sub":{"rev":99}}`},
		"negative":                 {`{"rev":-1}`, `{"rev":-2}`},
		"epoch that is no integer": {`{"revEpoch":"x","rev":5}`, `{"rev":5}`},
		"+epoch out of range":      {`{"revEpoch":99999999999999999999,"rev":1}`, `{"rev":2}`},
		"+rev out of range":        {`{"rev":5}`, `{"rev":-99999999999999999999}`},
		"beyond 2^53":              {`{"rev":9007199254740993}`, `{"rev":9007199254740992}`},
		"last of a doubled key":    {`{"rev":5}`, `{"rev":9,"rev":4}`},
		"+newer":                   {`{"rev":5}`, `{"rev":6}`},
		"+newer epoch":             {`{"revEpoch":1,"rev":5}`, `{"revEpoch":2,"rev":1}`},
		"+newer beyond 2^53":       {`{"rev":9007199254740992}`, `{"rev":9007199254740993}`},
		"+without rev":             {`{"rev":5}`, `{"revEpoch":0}`},
		"+held without rev":        {`{"revEpoch":7}`, `{"rev":-1}`},
		"+null":                    {`{"rev":5}`, `{"rev":null}`},
		"+text":                    {`{"rev":5}`, `{"rev":"4"}`},
		"+fraction":                {`{"rev":5}`, `{"rev":4.5}`},
		"+no object":               {`{"rev":5}`, `[4]`},
		"+space in the documents":  {"\t {\"rev\" :  5 } ", "  {\"rev\" :\t6 }\r"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, map[string]http.HandlerFunc{"a": sends(test.held + "\n" + test.next + "\n")})
				r := listen(t, c, configstream.Config{}, "a")
				pass(time.Second)
				r.stop()
				want := []string{"a " + strings.TrimSpace(test.held)}
				if strings.HasPrefix(name, "+") {
					want = append(want, "a "+strings.TrimSpace(test.next))
				}
				assert.Equal(t, want, r.updates)
				u, ok := r.Latest()
				assert.True(t, ok)
				assert.Equal(t, want[len(want)-1], u.Node+" "+string(u.Config))
				assert.Len(t, c.tried(), 1, "an old configuration is no error")
			})
		})
	}
}

// S8: an Update has its revision, and Latest has the Update before OnConfig is called.
func TestS8Update(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[string]http.HandlerFunc{"a": sends(`{"rev":3,"revEpoch":2}` + "\n{}\n")})
		var l *configstream.Listener
		var got []configstream.Revision
		l, err := configstream.New(configstream.Config{
			Nodes:     func(context.Context) ([]string, error) { return []string{"a"}, nil },
			Transport: c,
			OnConfig: func(u configstream.Update) {
				latest, ok := l.Latest()
				assert.True(t, ok)
				assert.Equal(t, u, latest)
				got = append(got, u.Revision)
			},
			Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, l.Run(ctx))
		assert.Equal(t, []configstream.Revision{{Epoch: 2, Rev: 3, Valid: true}, {}}, got)
	})
}

// S8: only a line that was ended by its newline is a configuration, wherever it is cut.
func TestS8CutAtEveryByte(t *testing.T) {
	stream := `{"rev":1,"a":"é"}` + "\n\r\n\n" + `{"rev":2}` + "\r\n" + ` {"rev":3}` + "\n"
	want := []string{`a {"rev":1,"a":"é"}`, `a {"rev":2}`, `a {"rev":3}`}
	for cut := range len(stream) + 1 {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, map[string]http.HandlerFunc{"a": sends(stream[:cut], time.Second, stream[cut:])})
			whole := listen(t, c, configstream.Config{}, "a")
			pass(2 * time.Second)
			whole.stop()
			assert.Equal(t, want, whole.updates)

			c.set("a", sends(stream[:cut], "close"))
			half := listen(t, c, configstream.Config{}, "a")
			pass(50 * time.Millisecond)
			half.stop()
			assert.Len(t, half.updates, strings.Count(stream[:cut], "}\n")+strings.Count(stream[:cut], "}\r\n"))
		})
	}
}

// D51: a healthy stream lives for an hour on one connection; silence then ends it.
func TestD51HealthyStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		c := newCluster(t, map[string]http.HandlerFunc{"a": func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			for range 359 {
				io.WriteString(w, "\n")
				http.NewResponseController(w).Flush()
				beats++
				time.Sleep(10 * time.Second)
			}
			<-r.Context().Done()
		}})
		r := listen(t, c, configstream.Config{Limits: timeouts.Limits{Header: 5 * time.Second, Idle: 30 * time.Second}}, "a")
		pass(3600 * time.Second)
		assert.Equal(t, 359, beats)
		assert.Len(t, c.tried(), 1)
		assert.Empty(t, r.records.with("WARN"))
		pass(20 * time.Second)
		r.stop()
		last := time.Second + 358*10*time.Second
		assert.Equal(t, []time.Duration{0, last + 30*time.Second + 100*time.Millisecond}, c.at("a"))
	})
}

// D52: streams that end at once, without data, do not cause a hot loop.
func TestD52NoHotLoop(t *testing.T) {
	for _, b := range []backoff.Exponential{{}, {Initial: time.Second, Max: 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			end := sends("close")
			c := newCluster(t, map[string]http.HandlerFunc{"a": end, "b": end, "c": end})
			r := listen(t, c, configstream.Config{Backoff: b}, "a", "b", "c")
			pass(time.Minute)
			r.stop()
			assert.LessOrEqual(t, len(c.tried()), 60)
			early := 0
			for _, at := range c.at("") {
				if at < 30*time.Second {
					early++
				}
			}
			assert.LessOrEqual(t, len(c.tried())-early, early)
			for _, host := range []string{"a", "b", "c"} {
				at := c.at(host)
				assert.Len(t, slices.Compact(slices.Clone(at)), len(at))
			}
		})
	}
}

// D53: documents of any length, cut anywhere, are delivered byte for byte; with a lower
// limit the error names it, and the listener goes on.
func TestD53LongDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var documents, parts []string
		for _, size := range []int{100, 65536, 1 << 20} {
			documents = append(documents, `"`+strings.Repeat("0123456789", size/10+1)[:size-2]+`"`)
		}
		stream := strings.Join(documents, "\n") + "\n"
		for chunk := range slices.Chunk([]byte(stream), 1000) {
			parts = append(parts, string(chunk))
		}
		handler := func(w http.ResponseWriter, r *http.Request) {
			for _, part := range parts {
				if _, err := io.WriteString(w, part); err != nil {
					return
				}
				http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}
		c := newCluster(t, map[string]http.HandlerFunc{"a": handler})
		r := listen(t, c, configstream.Config{}, "a")
		pass(time.Second)
		r.stop()
		require.Len(t, r.updates, 3)
		for i, document := range documents {
			assert.True(t, r.updates[i] == "a "+document)
		}

		r = listen(t, c, configstream.Config{MaxLine: 64 << 10}, "a")
		pass(150 * time.Millisecond)
		r.stop()
		assert.Equal(t, []string{"a " + documents[0], "a " + documents[0]}, r.updates)
		assert.Equal(t, []time.Duration{0, 100 * time.Millisecond}, r.got)
		assert.Len(t, r.records.with("a line is longer than the limit of 65536 bytes"), 2)
	})
}

// D54: rotation over the nodes.
func TestD54Rotation(t *testing.T) {
	for range 20 { // the order is random
		synctest.Test(t, func(t *testing.T) {
			var hour []any
			for range 60 {
				hour = append(hour, "{}\n", time.Minute)
			}
			c := newCluster(t, map[string]http.HandlerFunc{"b": status(500), "c": sends(append(hour, "close")...)})
			r := listen(t, c, configstream.Config{}, "a", "b", "c")
			pass(10 * time.Millisecond)
			assert.Len(t, c.at("c"), 1)
			assert.LessOrEqual(t, len(c.at("a")), 1)
			assert.LessOrEqual(t, len(c.at("b")), 1)

			c.set("c", nil)
			c.set("a", sends("{}\n"))
			before := len(c.tried())
			pass(time.Hour + 200*time.Millisecond)
			r.stop()
			after := c.tried()[before:]
			assert.NotEqual(t, "c", after[0].host)
			assert.LessOrEqual(t, len(after), 3)
			assert.Equal(t, "a", after[len(after)-1].host)
			assert.LessOrEqual(t, after[len(after)-1].at, time.Hour+100*time.Millisecond)
			assert.Equal(t, 1, c.mostOpen)
		})
	}
}

// D54: after the end of a stream each other node has its turn before any is tried again.
func TestD54EachOtherNodeFirst(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, map[string]http.HandlerFunc{"c": sends("\n", time.Minute, "close")})
			r := listen(t, c, configstream.Config{}, "a", "b", "c", "d", "e")
			pass(30 * time.Second)
			before := len(c.tried())
			pass(time.Minute)
			r.stop()
			var next []string
			for _, a := range c.tried()[before:][:4] {
				next = append(next, a.host)
			}
			slices.Sort(next)
			assert.Equal(t, []string{"a", "b", "d", "e"}, next)
		})
	}
}

// D54: the node that was tried last is not the first of the next round, also if in
// between there were no nodes.
func TestD54LastNodeIsNotNextAfterARoundWithoutNodes(t *testing.T) {
	for range 30 {
		synctest.Test(t, func(t *testing.T) {
			var tried []string
			rounds := 0
			ctx, cancel := context.WithCancel(t.Context())
			listener, err := configstream.New(configstream.Config{
				Nodes: func(context.Context) ([]string, error) {
					switch rounds++; rounds {
					case 2:
						return nil, errors.New("no nodes")
					case 4:
						cancel()
					}
					return []string{"a.example", "b.example", "c.example"}, nil
				},
				Path: "/stream",
				Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
					tried = append(tried, req.URL.Host)
					time.Sleep(time.Millisecond)
					return nil, errors.New("refused")
				}),
				Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			require.Equal(t, context.Canceled, listener.Run(ctx))
			require.Len(t, tried, 6)
			require.NotEqual(t, tried[2], tried[3])
		})
	}
}

// D61: where a node takes connections and says nothing, the listener does not pile them
// up: net/http would go on with the handshake of a request that was given up.
func TestNoConnectionIsLeftByAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened, open := 0, 0
		var mu sync.Mutex
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			opened++
			open++
			conn, _ := net.Pipe()
			return &closed{Conn: conn, then: func() {
				mu.Lock()
				defer mu.Unlock()
				open--
			}}, nil
		}}
		r := listen(t, nil, configstream.Config{Transport: transport}, "https://a")
		for round := 1; round < 20; round++ {
			pass(30 * time.Second) // a round at least: the limit for the header, and the wait
			mu.Lock()
			assert.GreaterOrEqual(t, opened, round)
			assert.LessOrEqual(t, open, 1)
			mu.Unlock()
		}
		r.stop()
	})
}

// closed is a connection that calls a function when it is closed for the first time.
type closed struct {
	net.Conn
	once sync.Once
	then func()
}

func (c *closed) Close() error {
	c.once.Do(c.then)
	return c.Conn.Close()
}

// D59: no record holds a secret.
func TestD59NoSecrets(t *testing.T) {
	const address = "http://user:secret@127.0.0.1:8091/p?token=abc123#frag"
	for name, transport := range map[string]roundTripper{
		"status":  httptestutil.Status(503, "no"),
		"denied":  httptestutil.Status(401, "no"),
		"refused": httptestutil.Fail(&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}),
		"silent":  httptestutil.Hang(),
		"stalled": httptestutil.Stall(200, "{}\n"),
		"cut":     httptestutil.Truncate(200, "{}\n{"),
		"invalid": httptestutil.Status(200, "token=abc123\n"),
		"broken body": func(req *http.Request) (*http.Response, error) {
			resp, err := httptestutil.Status(200, "")(req)
			resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("{}\n"), iotest.ErrReader(errors.New("no more of http://user:secret@h/p?token=abc123"))))
			return resp, err
		},
		"quoted": httptestutil.Fail(errors.New(`malformed HTTP response "secret abc123"`)),
		"astray": func(req *http.Request) (*http.Response, error) {
			resp, err := httptestutil.Status(302, "")(req)
			resp.Header.Set("Location", "http://user:secret@%zz/?token=abc123")
			return resp, err
		},
		"nested": func(req *http.Request) (*http.Response, error) {
			return (&http.Client{Transport: roundTripper(httptestutil.Fail(io.EOF))}).Get(req.URL.String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := listen(t, nil, configstream.Config{
					Path:      "/q?token=abc123",
					Transport: transport,
					Nodes: func(ctx context.Context) ([]string, error) {
						if time.Now().Second()%2 == 1 {
							_, err := (&http.Client{Transport: transport}).Do(httpRequest(ctx, address))
							return nil, err
						}
						return []string{address, "http://user:secret@127.0.0.1:port/?token=abc123", "user:secret:http://x?abc123"}, nil
					},
				})
				pass(10 * time.Minute)
				r.stop()
				all := strings.Join(r.records.lines, "\n")
				assert.Contains(t, all, "http://127.0.0.1:8091")
				for _, secret := range []string{"secret", "abc123", "frag", "/p", "/q"} {
					assert.NotContains(t, all, secret)
				}
			})
		})
	}
}

func httpRequest(ctx context.Context, url string) *http.Request {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	context.AfterFunc(ctx, cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	return req
}

// A panic reaches the caller of Run, with the stream closed.
func TestPanicsReachTheCaller(t *testing.T) {
	for name, cfg := range map[string]configstream.Config{
		"OnConfig":  {OnConfig: func(configstream.Update) { panic("boom") }},
		"Nodes":     {Nodes: func(context.Context) ([]string, error) { panic("boom") }},
		"Transport": {Transport: roundTripper(func(*http.Request) (*http.Response, error) { panic("boom") })},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, map[string]http.HandlerFunc{"a": sends("{}\n")})
				if cfg.Nodes == nil {
					cfg.Nodes = func(context.Context) ([]string, error) { return []string{"a"}, nil }
				}
				if cfg.Transport == nil {
					cfg.Transport = c
				}
				cfg.Logger = slog.New(slog.DiscardHandler)
				l, err := configstream.New(cfg)
				require.NoError(t, err)
				for range 2 { // Run can be called again
					assert.PanicsWithValue(t, "boom", func() { l.Run(context.Background()) })
					assert.Zero(t, c.open)
				}
			})
		})
	}
}

// A function that ends its goroutine has returned.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[string]http.HandlerFunc{"a": sends("1\n2\n")})
		r := listen(t, c, configstream.Config{OnConfig: func(configstream.Update) { runtime.Goexit() }}, "a")
		pass(time.Second)
		r.stop()
		assert.Equal(t, []string{"a 1", "a 2"}, r.updates)
		assert.Contains(t, r.records.lines, "WARN OnConfig failed error=the function ended its goroutine (runtime.Goexit)")
	})
}

// OnConfig may end Run, and is waited for.
func TestOnConfigMayEndRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[string]http.HandlerFunc{"a": sends("1\n2\n")})
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		l, err := configstream.New(configstream.Config{
			Nodes:     func(context.Context) ([]string, error) { return []string{"a"}, nil },
			Transport: c,
			OnConfig:  func(configstream.Update) { cancel(errStop); calls++ },
			Logger:    slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		assert.Equal(t, errStop, l.Run(ctx))
		assert.Equal(t, 1, calls)
	})
}

// Without OnConfig, Latest has the configuration; without a Logger, slog.Default() gets
// the records.
func TestDefaults(t *testing.T) {
	var log bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, map[string]http.HandlerFunc{"a": sends("1\n2\n")})
		l, err := configstream.New(configstream.Config{
			Nodes:     func(context.Context) ([]string, error) { return []string{"a"}, nil },
			Transport: c,
		})
		require.NoError(t, err)
		_, ok := l.Latest()
		assert.False(t, ok)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, context.DeadlineExceeded, l.Run(ctx))
		u, ok := l.Latest()
		assert.True(t, ok)
		assert.Equal(t, "2", string(u.Config))
	})
	assert.Contains(t, log.String(), `msg="stream begun" node=http://a`)
}

// Every fault is reported at once, with field, value and range.
func TestNewRefuses(t *testing.T) {
	nodes := func(context.Context) ([]string, error) { return nil, nil }
	for _, test := range []struct {
		cfg  configstream.Config
		want []string
	}{
		{configstream.Config{}, []string{"configstream: Nodes is nil; accepted: a function"}},
		{configstream.Config{
			Limits:  timeouts.Limits{Total: 1, Header: -1, Idle: -3},
			Backoff: backoff.Exponential{Initial: -1, Jitter: 1},
			MaxLine: -1,
		}, []string{
			"configstream: Nodes is nil; accepted: a function",
			"configstream: Backoff: backoff: Initial is -1ns; accepted: > 0, or 0 for 1s",
			"backoff: Jitter is 1; accepted: >= 0 and < 1",
			"configstream: Limits.Total is 1ns; accepted: 0, a stream has no end",
			"configstream: Limits.Header is -1ns; accepted: > 0, or 0 for 10s",
			"configstream: Limits.Idle is -3ns; accepted: > 0, or 0 for 5m0s",
			"configstream: MaxLine is -1; accepted: > 0, or 0 for 20971520",
		}},
	} {
		l, err := configstream.New(test.cfg)
		assert.Nil(t, l)
		assert.EqualError(t, err, strings.Join(test.want, "\n"))
	}
	for _, path := range []string{"http://h/x?abc123", "//h/x", "//user@/x", "mailto:x", "/%zz", "/x?a b", "/x#y", "x:y"} {
		_, err := configstream.New(configstream.Config{Nodes: nodes, Path: path})
		assert.EqualError(t, err, "configstream: Path is not a path (it is not shown, since it may hold a secret); accepted: the path of a URL, with or without a query, in which a space is %20", path)
	}
	for _, path := range []string{"", "/", "x", "/x?y", "?y", "/a b", "/x?a%20b"} {
		_, err := configstream.New(configstream.Config{Nodes: nodes, Path: path})
		assert.NoError(t, err, fmt.Sprintf("path %q", path))
	}
}
