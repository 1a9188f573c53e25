package httptestutil_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/httptestutil"
)

// inAndOut runs test outside and inside a bubble.
func inAndOut(t *testing.T, test func(t *testing.T)) {
	t.Run("outside a bubble", test)
	t.Run("inside a bubble", func(t *testing.T) { synctest.Test(t, test) })
}

func get(t *testing.T, s *httptestutil.Server, url string) string {
	t.Helper()
	resp, err := s.Client().Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func mustBeClosed(t *testing.T, ended chan struct{}) {
	t.Helper()
	select {
	case <-ended:
	default:
		t.Error("Close has not waited for the handler")
	}
}

var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
	http.NewResponseController(w).Flush()
	io.Copy(flusher{w}, r.Body)
})

type flusher struct{ http.ResponseWriter }

func (f flusher) Write(p []byte) (int, error) {
	defer http.NewResponseController(f.ResponseWriter).Flush()
	return f.ResponseWriter.Write(p)
}

func TestH1ServerAnswers(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.URL)
		}))
		assert.Equal(t, "GET server.test /path?query", get(t, s, s.URL+"/path?query"))
	})
}

func TestH1WhateverTheHostTheServerIsReached(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.Host)
		}))
		for _, host := range []string{"example.com", "localhost:8091", "[::1]:80", "10.0.0.1"} {
			assert.Equal(t, host, get(t, s, "http://"+host+"/"))
		}
	})
}

func TestH1NilHandlerIsDefaultServeMux(t *testing.T) {
	s := httptestutil.NewServer(t, nil)
	assert.Equal(t, "404 page not found\n", get(t, s, s.URL+"/no/such/path"))
}

func TestH1ConnectionsAreReused(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, echo)
		var reused []bool
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { reused = append(reused, info.Reused) },
		})
		call := func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			require.NoError(t, err)
			resp, err := s.Client().Do(req)
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			resp.Body.Close()
		}
		call()
		call()
		s.Client().CloseIdleConnections()
		call()
		assert.Equal(t, []bool{false, true, false}, reused)
	})
}

func TestH1TimePassesAtOnceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 360 {
				time.Sleep(10 * time.Second)
				io.WriteString(w, "line\n")
				http.NewResponseController(w).Flush()
			}
		}))
		start := time.Now()
		resp, err := s.Client().Get(s.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for n := time.Duration(1); lines.Scan(); n++ {
			assert.Equal(t, n*10*time.Second, time.Since(start))
		}
		assert.NoError(t, lines.Err())
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

func TestH1DeadlinesAreExactInABubble(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"before the header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in the body": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "part")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := httptestutil.NewServer(t, h)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
				require.NoError(t, err)
				start := time.Now()
				resp, err := s.Client().Do(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, time.Minute, time.Since(start))
			})
		})
	}
}

// The example of the package documentation.
func TestH1ClientGivesUpAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := httptestutil.NewServer(t, http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done() // never answers
			}))
		client := server.Client()
		client.Timeout = time.Minute

		start := time.Now()
		_, err := client.Get(server.URL)
		if err == nil || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

// The handler learns that the client has gone, as over TCP.
func TestH1CancellationReachesTheHandler(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		arrived, gone := make(chan struct{}), make(chan struct{})
		s := httptestutil.NewServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(arrived)
			<-r.Context().Done()
			close(gone)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		go func() {
			<-arrived
			cancel()
		}()
		_, err = s.Client().Do(req)
		assert.ErrorIs(t, err, context.Canceled)
		<-gone
	})
}

func TestH1BothDirectionsAtOnce(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, echo)
		read, write := io.Pipe()
		resp, err := s.Client().Post(s.URL, "text/plain", read)
		require.NoError(t, err)
		defer resp.Body.Close()
		answer := bufio.NewReader(resp.Body)
		for n := range 3 {
			fmt.Fprintln(write, "line", n)
			line, err := answer.ReadString('\n')
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintln("line", n), line)
		}
		write.Close()
		_, err = answer.ReadByte()
		assert.Equal(t, io.EOF, err)
	})
}

// A pipe has no buffer, and yet a server may answer without reading the request.
func TestH1AnswerBeforeTheRequestIsRead(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}))
		resp, err := s.Client().Post(s.URL, "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, "503 busy\n", fmt.Sprint(resp.StatusCode, " ", string(body)))
	})
}

func TestH1HijackedConnection(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		ended := make(chan struct{})
		s := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			io.Copy(conn, buffered)
			<-r.Context().Done()
			close(ended)
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := s.Transport.RoundTrip(req)
		require.NoError(t, err)
		conn := resp.Body.(io.ReadWriteCloser)
		io.WriteString(conn, "hello\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		assert.NoError(t, err)
		assert.Equal(t, "hello\n", line)

		s.Close()
		mustBeClosed(t, ended)
		_, err = conn.Read(make([]byte, 1))
		assert.Equal(t, io.EOF, err)
		conn.Close()
	})
}

func TestH1ManyClients(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, echo)
		var clients sync.WaitGroup
		for n := range 50 {
			clients.Go(func() {
				for range 10 {
					want := fmt.Sprint("client ", n)
					resp, err := s.Client().Post(s.URL, "text/plain", strings.NewReader(want))
					if assert.NoError(t, err) {
						body, err := io.ReadAll(resp.Body)
						assert.NoError(t, err)
						assert.Equal(t, want, string(body))
						resp.Body.Close()
					}
				}
			})
		}
		clients.Wait()
	})
}

func TestH1ClosedServerRefuses(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, echo)
		get(t, s, s.URL)
		s.Close()
		s.Close()
		_, err := s.Client().Get(s.URL)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
		var dial *net.OpError
		require.ErrorAs(t, err, &dial)
		assert.EqualError(t, dial, "dial tcp server.test:80: connect: connection refused")
		assert.False(t, dial.Timeout())
	})
}

func TestH1ServerIsClosedWhenTheTestEnds(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		var s *httptestutil.Server
		r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
			s = httptestutil.NewServer(r, echo)
			get(t, s, s.URL)
		})
		assert.False(t, r.Failed())
		_, err := s.Client().Get(s.URL)
		assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

// Close ends the context of each request, also where net/http alone would not see
// that the connection is broken: while the request's body has not been read.
func TestH1CloseEndsRequestsAndWaitsForHandlers(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		arrived, ended := make(chan struct{}), make(chan struct{})
		s := httptestutil.NewServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(arrived)
			<-r.Context().Done()
			close(ended)
		}))
		failed := make(chan error)
		go func() {
			_, err := s.Client().Post(s.URL, "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
			failed <- err
		}()
		<-arrived
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		assert.Error(t, <-failed)
		<-closed
		mustBeClosed(t, ended)
	})
}

func TestH1CloseBreaksBodies(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		s := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "part")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}))
		resp, err := s.Client().Get(s.URL)
		require.NoError(t, err)
		defer resp.Body.Close()
		go s.Close()
		body, err := io.ReadAll(resp.Body)
		assert.Equal(t, "part", string(body))
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
}

// Dials that race with Close are served or refused, and never left waiting.
func TestH1CloseWhileDialling(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		for range 20 {
			s := httptestutil.NewServer(t, echo)
			s.Transport.DisableKeepAlives = true // to dial all the time
			var clients, served sync.WaitGroup
			for range 10 {
				served.Add(1)
				clients.Go(func() {
					first := sync.OnceFunc(served.Done)
					for {
						resp, err := s.Client().Get(s.URL)
						if errors.Is(err, syscall.ECONNREFUSED) {
							return
						}
						if err == nil {
							io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
							first()
						}
					}
				})
			}
			served.Wait()
			s.Close()
			clients.Wait()
		}
	})
}

func TestH1PanicOfAHandlerIsLogged(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
			s := httptestutil.NewServer(r, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }))
			_, err := s.Client().Get(s.URL)
			assert.ErrorIs(t, err, io.EOF)
		})
		assert.Contains(t, r.Text(), "panic serving pipe: boom")
		assert.False(t, r.Failed())
	})
}

// A handler's own goroutine that goes on after the test must not log to it.
func TestH1NothingIsLoggedAfterTheTest(t *testing.T) {
	inAndOut(t, func(t *testing.T) {
		over, done := make(chan struct{}), make(chan struct{})
		r := httptestutil.Record(t, func(r *httptestutil.Recorder) {
			s := httptestutil.NewServer(r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				log := r.Context().Value(http.ServerContextKey).(*http.Server).ErrorLog
				go func() {
					<-over
					log.Print("too late")
					close(done)
				}()
			}))
			get(t, s, s.URL)
		})
		close(over)
		<-done
		assert.Empty(t, r.Text())
	})
}
