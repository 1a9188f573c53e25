package usagesharing_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/examples/usagesharing"
)

// These tests use real connections and real time, with upper bounds only.
const patience = 20 * time.Second

// eventually waits for the number of settled messages.
func eventually(t *testing.T, s *usagesharing.Sender, messages uint64) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Stats().Messages == messages }, patience, time.Millisecond)
}

// serve starts a server that counts its connections. What the kernel holds for it
// has been written, though nobody reads it; that is kept small, since on loopback it
// may be 4 MB.
func serve(t *testing.T, h http.HandlerFunc) (url string, connections *atomic.Int32) {
	connections = new(atomic.Int32)
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
			assert.NoError(t, conn.(*net.TCPConn).SetWriteBuffer(64<<10))
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, connections
}

// D24: after small error answers the connection is used again.
func TestConnectionIsUsedAgain(t *testing.T) {
	for name, answer := range map[string]string{"of 10 KiB": strings.Repeat("x", 10<<10), "of nothing": ""} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", chunked ", chunked), func(t *testing.T) {
				var requests atomic.Int32
				url, connections := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if requests.Add(1) <= 5 {
						w.WriteHeader(http.StatusServiceUnavailable)
					}
					if chunked {
						w.(http.Flusher).Flush()
					}
					io.WriteString(w, answer)
				})
				s := newSender(t, usagesharing.Config{URL: url, MinEntriesPerMessage: 1})
				stop := start(t, s)
				for i := range 6 {
					add(s, i, 1)
					eventually(t, s, uint64(i+1))
				}
				stop()
				assert.EqualValues(t, 6, requests.Load())
				assert.EqualValues(t, 1, connections.Load())
				assert.EqualValues(t, 1, s.Stats().Delivered)
			})
		}
	}
}

// D61: an endless answer and a dripping one are cut off, and little of the first was
// written; the next message is sent normally. (When they are, TestEndlessAnswers tells
// to the nanosecond.)
func TestEndlessAnswersOnRealConnections(t *testing.T) {
	for name, c := range map[string]struct {
		piece string
		every time.Duration
	}{
		"endless":  {strings.Repeat("x", 64<<10), 0},
		"dripping": {"x", time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			written := make(chan int, 1)
			url, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) > 1 {
					return
				}
				io.Copy(io.Discard, r.Body)
				w.WriteHeader(http.StatusServiceUnavailable)
				total := 0
				for {
					n, err := io.WriteString(w, c.piece)
					if err == nil {
						err = http.NewResponseController(w).Flush()
					}
					if err != nil {
						written <- total
						return
					}
					total += n
					select {
					case <-time.After(c.every):
					case <-r.Context().Done():
					}
				}
			})
			s := newSender(t, usagesharing.Config{URL: url, MinEntriesPerMessage: 1})
			stop := start(t, s)
			add(s, 0, 1)
			eventually(t, s, 1)
			assert.LessOrEqual(t, <-written, 1<<20)
			add(s, 1, 1)
			eventually(t, s, 2)
			stop()
			assert.Equal(t, usagesharing.Stats{Accepted: 2, DroppedFailed: 1, Delivered: 1, Messages: 2, FailedMessages: 1}, s.Stats())
		})
	}
}

// D59: no record holds a secret, through a pause, a trial that fails and one that
// succeeds; whether the service answers, and repeats what it was asked, refuses
// connections, or is silent, or a transport puts the URL into its error. The user
// information is sent all the same.
func TestLogHoldsNoSecret(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "Cannot POST %v for %s (%s); token %q", r.URL, user, password, r.FormValue("token"))
	}
	echoing, _ := serve(t, echo)
	silent, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // or the server would not notice the end of the request
		<-r.Context().Done()
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	refusing := "http://" + listener.Addr().String()
	listener.Close()

	for name, c := range map[string]struct {
		base    string
		fail    func(*url.URL) error
		want    string
		timeout time.Duration
	}{
		"answers":      {echoing, nil, "answer=Cannot POST /p?token=[redacted] for [redacted] ([redacted]); token \"[redacted]\"", patience},
		"refuses":      {refusing, nil, "refused", patience},
		"is silent":    {silent, nil, "within 50ms", 50 * time.Millisecond},
		"names itself": {echoing, func(u *url.URL) error { return fmt.Errorf("no way to %v", u) }, "no way to [redacted]", patience},
	} {
		t.Run(name, func(t *testing.T) {
			var healthy atomic.Bool
			recovered, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				user, password, _ := r.BasicAuth()
				assert.Equal(t, "user:secret", user+":"+password)
				assert.Equal(t, "/p?token=abc123", r.URL.String())
			})
			logged := new(records)
			s := newSender(t, usagesharing.Config{
				URL:                  strings.Replace(c.base, "http://", "http://user:secret@", 1) + "/p?token=abc123#frag",
				MinEntriesPerMessage: 1,
				RequestTimeout:       c.timeout,
				Logger:               logged.logger(),
				Breaker:              breaker.Config{FailuresToEnterRecovery: 2, InitialRecoveryDelay: time.Millisecond},
				Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					r = r.Clone(r.Context())
					r.Header.Set("X-Token", "Bearer xyz789")
					if healthy.Load() {
						r.URL.Host = strings.TrimPrefix(recovered, "http://")
					} else if c.fail != nil {
						r.Body.Close()
						return nil, c.fail(r.URL)
					}
					return http.DefaultTransport.RoundTrip(r)
				}),
			})
			stop := start(t, s)
			for i := range 3 { // two that pause sending, and a trial
				add(s, i, 1)
				eventually(t, s, uint64(i+1))
			}
			healthy.Store(true)
			require.Eventually(t, func() bool {
				add(s, 1000+int(s.Stats().Accepted), 1)
				return s.Stats().Delivered > 0
			}, patience, time.Millisecond)
			stop()

			assert.NotEmpty(t, logged.with(c.want), logged.with(""))
			assert.NotEmpty(t, logged.with("sending paused"))
			assert.NotEmpty(t, logged.with("pause lengthened"))
			assert.NotEmpty(t, logged.with("sending resumed"))
			for _, secret := range []string{"secret", "abc123", "xyz789", "Mozilla", agent(0)} {
				assert.Empty(t, logged.with(secret))
			}
		})
	}
}
