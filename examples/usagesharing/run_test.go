package usagesharing_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/examples/usagesharing"
	"github.com/respitehttp/respite/httptestutil"
	"github.com/respitehttp/respite/timeouts"
)

// The story of the specification, at the default settings (U1, U4, U5, U6): ten
// failed sends, a pause of 2 s in which entries go on being queued, one trial, and
// then message follows message, with no further Add, until too few for one are left.
func TestStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var healthy atomic.Bool
		svc := newService(t, func(r *http.Request) (*http.Response, error) {
			if healthy.Load() {
				return httptestutil.Status(200, "")(r)
			}
			return httptestutil.Status(503, "")(r)
		})
		s := newSender(t, usagesharing.Config{Transport: svc})
		stop := start(t, s)

		for i := range 10 { // one failed message every 10 s: the tenth after 90 s
			assert.Equal(t, breaker.Closed, s.Stats().State)
			add(s, 50*i, 50)
			synctest.Wait()
			assert.Len(t, svc.received(), i+1)
			if i < 9 {
				time.Sleep(10 * time.Second)
			}
		}
		assert.Equal(t, usagesharing.Stats{Accepted: 500, DroppedFailed: 500, Messages: 10, FailedMessages: 10, State: breaker.Open}, s.Stats())

		healthy.Store(true)
		for i := range 19 { // 930 entries within 1.9 s
			assert.Equal(t, 49, add(s, 500+49*i, 49))
			time.Sleep(100 * time.Millisecond)
		}
		assert.Len(t, svc.received(), 10, "nothing is sent in the pause")
		assert.EqualValues(t, 931, s.Stats().Queued)

		time.Sleep(99 * time.Millisecond)
		assert.Len(t, svc.received(), 10, "nor 1 ms before its end")
		time.Sleep(2 * time.Millisecond)
		assert.Equal(t, []int{100, 100, 100, 100, 100, 100, 100, 100, 100}, sizes(svc.received()[10:]))
		assert.Equal(t, visitors(500, 900), agents(svc.received()[10:]...))
		assert.Equal(t, usagesharing.Stats{Accepted: 1431, DroppedFailed: 500, Delivered: 900, Queued: 31, Messages: 19, FailedMessages: 10}, s.Stats())

		stop()
		assert.Equal(t, visitors(500, 931), agents(svc.received()[10:]...), "U12: the rest is sent at the end")
	})
}

// U5: only one message is sent until the trial is answered.
func TestOneTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, httptestutil.Status(503, ""), func(r *http.Request) (*http.Response, error) {
			time.Sleep(30 * time.Second)
			return httptestutil.Status(200, "")(r)
		}, httptestutil.Status(200, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, Breaker: breaker.Config{FailuresToEnterRecovery: 1}})
		defer start(t, s)()
		add(s, 0, 50)
		synctest.Wait()
		add(s, 50, 450)
		time.Sleep(31 * time.Second)
		assert.Equal(t, []int{50, 100}, sizes(svc.received()), "the trial runs")
		assert.Equal(t, breaker.HalfOpen, s.Stats().State)
		assert.EqualValues(t, 100, s.Stats().InFlight)
		time.Sleep(2 * time.Second)
		assert.Equal(t, []int{50, 100, 100, 100, 100}, sizes(svc.received())[:5])
	})
}

// The pause grows to 300 s while the queue overflows (U3), each trial costs one
// message, and warnings are sparse.
func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := new(records)
		svc := newService(t, httptestutil.Status(503, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, Logger: logged.logger()})
		stop := start(t, s)
		for i := range 1800 {
			add(s, 30*i, 30)
			time.Sleep(time.Second)
		}
		var pauses []time.Duration
		messages := svc.received()
		for i, m := range messages[10:] {
			pauses = append(pauses, m.at.Sub(messages[9+i].at)/time.Second)
		}
		assert.Equal(t, []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300}, pauses)
		stop()

		stats := s.Stats()
		assert.EqualValues(t, 22, stats.Messages)
		assert.Len(t, agents(messages...), int(stats.DroppedFailed))
		assert.EqualValues(t, 1000, stats.DroppedShutdown)
		assert.EqualValues(t, 54_000, stats.Accepted+stats.DroppedFull)
		full := len(logged.with("queue is full"))
		assert.LessOrEqual(t, full, int(stats.DroppedFull/1000)+12)
		assert.GreaterOrEqual(t, full, int(stats.DroppedFull/1000))
		assert.Len(t, logged.with("message failed"), 22)
		assert.Len(t, logged.with("pause lengthened"), 12)
		assert.Len(t, logged.with(""), full+22+12+1+1, "and one for the first pause, one for the shutdown")
	})
}

// U6, D44: a message that fails is dropped, not sent again, and the next one is sent.
func TestPoisonousMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t)
		svc.steps = []httptestutil.Step{func(r *http.Request) (*http.Response, error) {
			messages := svc.received()
			if slices.Contains(agents(messages[len(messages)-1]), agent(13)) {
				return httptestutil.Status(400, "")(r)
			}
			return httptestutil.Status(200, "")(r)
		}}
		s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 10})
		stop := start(t, s)
		add(s, 0, 10)
		synctest.Wait()
		add(s, 10, 10)
		synctest.Wait()
		add(s, 20, 10)
		synctest.Wait()
		stop()
		assert.Equal(t, visitors(0, 30), agents(svc.received()...), "each is tried once")
		assert.Equal(t, usagesharing.Stats{Accepted: 30, Delivered: 20, DroppedFailed: 10, Messages: 3, FailedMessages: 1}, s.Stats())
	})
}

// D45: what was given up is counted.
func TestFailedMessagesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, httptestutil.Status(503, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 10})
		stop := start(t, s)
		for i := range 3 {
			add(s, 10*i, 10)
			synctest.Wait()
		}
		stop()
		assert.Len(t, svc.received(), 3)
		assert.Equal(t, usagesharing.Stats{Accepted: 30, DroppedFailed: 30, Messages: 3, FailedMessages: 3}, s.Stats())
	})
}

// U6: a message that a breaker refused was not sent. Its entries stay the oldest. The
// Sender waits for its own breaker, so here it is another one, below.
func TestRefusedMessageIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		svc := newService(t, httptestutil.Status(200, ""))
		s := newSender(t, usagesharing.Config{MinEntriesPerMessage: 10, MaxQueueSize: 27, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if refuse.Load() {
				return nil, &breaker.OpenError{}
			}
			return svc.RoundTrip(r)
		})})
		add(s, 0, 27)
		stop := start(t, s)
		time.Sleep(time.Second)
		assert.Equal(t, usagesharing.Stats{Accepted: 27, Queued: 27, State: breaker.Open}, s.Stats())
		assert.Zero(t, add(s, 27, 5))
		refuse.Store(false)
		time.Sleep(10 * time.Second)
		assert.Equal(t, 5, add(s, 27, 5))
		stop()
		assert.Equal(t, visitors(0, 32), agents(svc.received()...))
	})
}

// U7: whatever is not 200 within RequestTimeout is a failure, and the log says which.
func TestWhatFails(t *testing.T) {
	many := strings.Repeat("é", 600)
	for name, c := range map[string]struct {
		step httptestutil.Step
		want string // of the record, if it fails
		took time.Duration
	}{
		"200":                 {step: httptestutil.Status(200, "thanks")},
		"200, broken content": {step: httptestutil.Truncate(200, "tha")},
		"200, stalled":        {step: httptestutil.Stall(200, "tha"), took: time.Second},
		"201":                 {step: httptestutil.Status(201, "made"), want: " status=201 answer=made"},
		"204":                 {step: httptestutil.Status(204, ""), want: " status=204 answer="},
		"404":                 {step: httptestutil.Status(404, "nothing\nhere\xff"), want: " status=404 answer=nothing\nhere\uFFFD"},
		"500 and much to say": {step: httptestutil.Status(500, many), want: " status=500 answer=" + many[:2*500]},
		"500, broken content": {step: httptestutil.Truncate(500, "tru"), want: " status=500 answer=tru"},
		"500, stalled":        {step: httptestutil.Stall(500, "sta"), took: time.Second, want: " status=500 answer=sta"},
		"refused":             {step: httptestutil.Fail(errors.New("connection refused")), want: " error=connection refused"},
		"a long error":        {step: httptestutil.Fail(errors.New(many)), want: " error=" + many[:2*489] + " [redacted]"},
		"no answer":           {step: httptestutil.Hang(), took: time.Minute, want: " error=timeouts: request not done within 1m0s"},
		"neither":             {step: func(*http.Request) (*http.Response, error) { return nil, nil }, want: " error=transport: base returned neither a response nor an error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logged := new(records)
				svc := newService(t, c.step)
				s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 2, Logger: logged.logger()})
				stop := start(t, s)
				add(s, 0, 2)
				if c.took > 0 {
					time.Sleep(c.took - time.Millisecond)
					assert.EqualValues(t, 2, s.Stats().InFlight)
					time.Sleep(2 * time.Millisecond)
				}
				synctest.Wait()
				if c.want == "" {
					assert.Equal(t, usagesharing.Stats{Accepted: 2, Delivered: 2, Messages: 1}, s.Stats())
					assert.Empty(t, logged.with(""))
				} else {
					assert.Equal(t, usagesharing.Stats{Accepted: 2, DroppedFailed: 2, Messages: 1, FailedMessages: 1}, s.Stats())
					assert.Equal(t, []string{"WARN usage sharing: message failed entries=2" + c.want}, logged.with(""))
				}
				stop()
			})
		})
	}
}

// U7: a redirect is not followed.
func TestRedirect(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"/ok", "http://[::1", ""} {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked = append(asked, r.Method+r.URL.Path)
					if r.URL.Path != "/ok" {
						w.Header()["Location"] = []string{location}
						w.WriteHeader(code)
					}
				}))
				s := newSender(t, usagesharing.Config{URL: server.URL + "/new", Transport: server.Transport, MinEntriesPerMessage: 1})
				stop := start(t, s)
				add(s, 0, 1)
				synctest.Wait()
				stop()
				assert.Equal(t, []string{"POST/new"}, asked)
				assert.EqualValues(t, 1, s.Stats().DroppedFailed)
			})
		}
	}
}

// D61: neither an endless answer nor one that drips is read for long. With 200 it is
// a success all the same.
func TestEndlessAnswers(t *testing.T) {
	for _, code := range []int{200, 503} {
		for name, c := range map[string]struct {
			piece string
			every time.Duration
			took  time.Duration
		}{
			"endless":  {strings.Repeat("x", 64<<10), 0, 0},
			"dripping": {"x", 300 * time.Millisecond, time.Second},
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var written atomic.Int64
					server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						w.WriteHeader(code)
						for {
							n, err := io.WriteString(w, c.piece)
							written.Add(int64(n))
							if err != nil || http.NewResponseController(w).Flush() != nil {
								return
							}
							time.Sleep(c.every)
						}
					}))
					s := newSender(t, usagesharing.Config{URL: server.URL, Transport: server.Transport, MinEntriesPerMessage: 10})
					stop := start(t, s)
					add(s, 0, 10)
					if c.took > 0 {
						time.Sleep(c.took - time.Millisecond)
						assert.EqualValues(t, 10, s.Stats().InFlight)
						time.Sleep(2 * time.Millisecond)
					}
					synctest.Wait()
					stats := s.Stats()
					assert.EqualValues(t, 1, stats.Messages)
					assert.Equal(t, code == 200, stats.Delivered == 10)
					time.Sleep(time.Second)
					assert.Less(t, written.Load(), int64(1<<20))
					stop()
				})
			})
		}
	}
}

// A service that accepts every message and answers none: each fails after
// RequestTimeout, then sending pauses.
func TestServiceThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		server := httptestutil.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		s := newSender(t, usagesharing.Config{URL: server.URL, Transport: server.Transport, RequestTimeout: 9 * time.Second, MaxQueueSize: 5000})
		add(s, 0, 5000)
		stop := start(t, s)
		time.Sleep(10*9*time.Second + time.Millisecond)
		assert.EqualValues(t, 10, requests.Load())
		assert.Equal(t, breaker.Open, s.Stats().State)
		time.Sleep(2*time.Second - 2*time.Millisecond)
		assert.EqualValues(t, 10, requests.Load())
		time.Sleep(2 * time.Millisecond)
		assert.EqualValues(t, 11, requests.Load())
		time.Sleep(9*time.Second + time.Millisecond)
		assert.EqualValues(t, 1100, s.Stats().DroppedFailed)
		stop()
		assert.EqualValues(t, 3900, s.Stats().DroppedShutdown)
	})
}

// U7: RequestTimeout holds, whatever limits the context of Run has.
func TestLimitsOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, usagesharing.Config{Transport: newService(t, httptestutil.Hang()), RequestTimeout: time.Second})
		add(s, 0, 50)
		ctx, cancel := context.WithTimeout(timeouts.WithLimits(t.Context(), timeouts.Limits{}), 1001*time.Millisecond)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, s.Run(ctx))
		assert.EqualValues(t, 50, s.Stats().DroppedFailed)
	})
}

// U7: an answer other than 200 is a failure for the pause, too, and one of 200 that
// breaks off is one for the pause alone.
func TestWhatPauses(t *testing.T) {
	for name, c := range map[string]struct {
		step      httptestutil.Step
		delivered uint64
	}{
		"no content":  {httptestutil.Status(204, ""), 0},
		"not found":   {httptestutil.Status(404, ""), 0},
		"a broken OK": {httptestutil.Truncate(200, "tha"), 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSender(t, usagesharing.Config{Transport: newService(t, c.step), MinEntriesPerMessage: 1})
			stop := start(t, s)
			for i := range 10 {
				assert.Equal(t, breaker.Closed, s.Stats().State, name)
				add(s, i, 1)
				synctest.Wait()
			}
			assert.Equal(t, breaker.Open, s.Stats().State, name)
			stop()
			assert.Equal(t, c.delivered, s.Stats().Delivered, name)
			assert.Equal(t, 10-c.delivered, s.Stats().DroppedFailed, name)
		})
	}
}

// U12: a message whose status has arrived is delivered, though Run's end cuts the rest
// of the answer.
func TestEndCutsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, usagesharing.Config{Transport: newService(t, httptestutil.Stall(200, "tha")), ShutdownTimeout: time.Millisecond})
		add(s, 0, 50)
		stop := start(t, s)
		synctest.Wait()
		stop()
		assert.Equal(t, usagesharing.Stats{Accepted: 50, Delivered: 50, Messages: 1}, s.Stats())
	})
}

// U12: requests carry the values of Run's context.
func TestValuesOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		svc := newService(t, func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, "value", r.Context().Value(key{}))
			return httptestutil.Status(200, "")(r)
		})
		s := newSender(t, usagesharing.Config{Transport: svc})
		add(s, 0, 1)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		cancel()
		require.Equal(t, context.Canceled, s.Run(ctx))
		assert.EqualValues(t, 1, s.Stats().Delivered)
	})
}

// D39, U12: the end of Run sends what is left, less than a message too.
func TestEndSendsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, httptestutil.Status(200, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 100})
		stop := start(t, s)
		add(s, 0, 7)
		synctest.Wait()
		assert.Empty(t, svc.received())
		stop()
		assert.Equal(t, visitors(0, 7), agents(svc.received()...))
		assert.Equal(t, usagesharing.Stats{Accepted: 7, Delivered: 7, Messages: 1}, s.Stats())
	})
}

// D40 a, U12: what the service does not answer is given up after ShutdownTimeout.
func TestEndIsBounded(t *testing.T) {
	for set, timeout := range map[time.Duration]time.Duration{0: 5 * time.Second, time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			logged := new(records)
			svc := newService(t, httptestutil.Hang())
			s := newSender(t, usagesharing.Config{Transport: svc, ShutdownTimeout: set, Logger: logged.logger()})
			add(s, 0, 300)
			stop := start(t, s)
			time.Sleep(time.Minute - timeout - time.Second) // the message would fail after the end
			began := time.Now()
			stop()
			assert.Equal(t, timeout, time.Since(began))
			assert.Len(t, svc.received(), 1)
			assert.Equal(t, usagesharing.Stats{Accepted: 300, DroppedShutdown: 300}, s.Stats())
			assert.Equal(t, []string{"WARN usage sharing: entries dropped at shutdown dropped=300"}, logged.with(""))
		})
	}
}

// D40 b, U12: a pause is neither waited for nor broken.
func TestEndInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := new(records)
		svc := newService(t, httptestutil.Status(503, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, Logger: logged.logger(), Breaker: breaker.Config{FailuresToEnterRecovery: 1, InitialRecoveryDelay: 300 * time.Second}})
		stop := start(t, s)
		add(s, 0, 50)
		synctest.Wait()
		s.Add(usagesharing.Evidence{"header.a": "1", "query.sequence": "none"})
		add(s, 51, 499)
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		assert.Zero(t, time.Since(began))
		assert.Len(t, svc.received(), 1)
		assert.Equal(t, usagesharing.Stats{Accepted: 550, DroppedFailed: 50, DroppedShutdown: 500, Messages: 1, FailedMessages: 1, State: breaker.Open}, s.Stats())
		assert.Empty(t, logged.with("sequence"), "a message was made in vain")
	})
}

// U12: the message in flight may finish, and the rest is sent after it.
func TestEndWithAMessageInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(1500 * time.Millisecond)
			return httptestutil.Status(200, "")(r)
		})
		s := newSender(t, usagesharing.Config{Transport: svc})
		stop := start(t, s)
		add(s, 0, 50)
		synctest.Wait()
		add(s, 50, 130)
		began := time.Now()
		time.AfterFunc(time.Millisecond, func() { assert.False(t, s.Add(visitor(-1)), "while the message is in flight") })
		stop()
		assert.Equal(t, 4500*time.Millisecond, time.Since(began))
		assert.Equal(t, []int{50, 100, 30}, sizes(svc.received()))
		assert.EqualValues(t, 180, s.Stats().Delivered)
		assert.EqualValues(t, 1, s.Stats().AfterEnd)
	})
}

// U12: the message in flight fails, and with it a pause begins: the rest is not sent.
func TestEndBeginsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return httptestutil.Status(503, "")(r)
		})
		s := newSender(t, usagesharing.Config{Transport: svc, Breaker: breaker.Config{FailuresToEnterRecovery: 2}})
		add(s, 0, 500)
		stop := start(t, s)
		synctest.Wait()
		stop()
		assert.Equal(t, usagesharing.Stats{Accepted: 500, DroppedFailed: 200, DroppedShutdown: 300, Messages: 2, FailedMessages: 2, State: breaker.Open}, s.Stats())
	})
}

// U12: a pause that is over is none: what is left is sent, the first as the trial.
func TestEndAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, httptestutil.Status(503, ""), httptestutil.Status(200, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, Breaker: breaker.Config{FailuresToEnterRecovery: 1}})
		stop := start(t, s)
		add(s, 0, 50)
		synctest.Wait()
		add(s, 50, 20)
		time.Sleep(time.Minute)
		stop()
		assert.Equal(t, usagesharing.Stats{Accepted: 70, DroppedFailed: 50, Delivered: 20, Messages: 2, FailedMessages: 1}, s.Stats())
	})
}

// D41 a, U12: with a context that is over already, before the first Add and after it.
func TestRunWithAContextThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := newSender(t, usagesharing.Config{Transport: httptestutil.Script(t)})
		drain(t, s)
		assert.Equal(t, usagesharing.Stats{}, s.Stats())
		assert.False(t, s.Add(visitor(1)))
		assert.False(t, s.Add(nil))
		assert.EqualValues(t, 2, s.Stats().AfterEnd)

		svc := newService(t, httptestutil.Status(200, ""))
		s = newSender(t, usagesharing.Config{Transport: svc})
		add(s, 0, 120)
		drain(t, s)
		assert.Equal(t, []int{100, 20}, sizes(svc.received()))
		assert.Zero(t, time.Since(began))
	})
}

// D41 b, U12: a second Run is an error, while the first one runs and after it.
func TestRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, usagesharing.Config{Transport: newService(t, httptestutil.Status(200, ""))})
		stop := start(t, s)
		synctest.Wait()
		const want = "usagesharing: Run is running, or has ended: a Sender runs once"
		assert.EqualError(t, s.Run(t.Context()), want)
		assert.True(t, s.Add(visitor(1)), "it does no harm")
		stop()
		assert.EqualError(t, s.Run(t.Context()), want)
		assert.EqualValues(t, 1, s.Stats().Delivered)
	})
}

// U12: once the context has ended, nothing is queued, not even at that instant.
func TestAddRightAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, usagesharing.Config{Transport: newService(t, httptestutil.Status(200, ""))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		assert.True(t, s.Add(visitor(0)))
		cancel()
		assert.False(t, s.Add(visitor(1)))
		assert.Equal(t, context.Canceled, <-ended)
		assert.Equal(t, usagesharing.Stats{Accepted: 1, Delivered: 1, Messages: 1, AfterEnd: 1}, s.Stats())
	})
}

// U1: Add calls nothing but the Logger, also where the breaker has changes to tell.
func TestAddCallsNoOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, usagesharing.Config{
			Transport:            newService(t, httptestutil.Status(503, ""), httptestutil.Hang()),
			MinEntriesPerMessage: 1, MaxQueueSize: 3,
			Breaker: breaker.Config{
				FailuresToEnterRecovery: 1, TrialTimeout: 10 * time.Second,
				OnChange: func(breaker.Change) { time.Sleep(5 * time.Second) },
			},
		})
		stop := start(t, s)
		add(s, 0, 1)
		time.Sleep(20 * time.Second) // paused, and then in a trial that hangs
		add(s, 1, 3)
		time.Sleep(time.Minute)
		add(s, 4, 3)
		began := time.Now()
		assert.False(t, s.Add(visitor(10)))
		assert.Zero(t, time.Since(began))
		stop()
	})
}

// D41 c, U12: whatever was accepted while Run ends is sent or counted as dropped, and
// nothing is accepted after it.
func TestAddWhileRunEnds(t *testing.T) {
	svc := newService(t, httptestutil.Status(200, ""))
	s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 5, MaxQueueSize: 30})
	stop := start(t, s)

	var offered, accepted atomic.Uint64
	var ended atomic.Bool
	var wg sync.WaitGroup
	for g := range 10 {
		wg.Go(func() {
			for i := 0; !ended.Load(); i++ {
				offered.Add(1)
				if s.Add(visitor(g*1_000_000 + i)) {
					accepted.Add(1)
				}
			}
		})
	}
	require.Eventually(t, func() bool { return accepted.Load() > 100 }, patience, time.Millisecond)
	stop()
	ended.Store(true)
	wg.Wait()

	assert.False(t, s.Add(visitor(-1)))
	stats := s.Stats()
	assert.Equal(t, accepted.Load(), stats.Accepted)
	assert.Equal(t, offered.Load()+1, stats.Accepted+stats.DroppedFull+stats.NotShared+stats.AfterEnd)
	assert.NotZero(t, stats.AfterEnd)
	assert.Zero(t, stats.Queued+stats.InFlight)
	arrived := agents(svc.received()...)
	assert.EqualValues(t, stats.Delivered, len(arrived))
	slices.Sort(arrived)
	assert.Len(t, slices.Compact(arrived), int(stats.Delivered), "none twice")
}

// The account adds up whenever it is read, whatever becomes of messages meanwhile;
// and 16 goroutines may add at once.
func TestAccountAlwaysAddsUp(t *testing.T) {
	var n atomic.Int32
	svc := newService(t, func(r *http.Request) (*http.Response, error) {
		switch n.Add(1) % 5 {
		case 0:
			return httptestutil.Status(503, "")(r)
		case 1:
			return nil, errors.New("broken")
		case 2:
			return nil, breaker.ErrOpen
		}
		return httptestutil.Status(200, "")(r)
	})
	s := newSender(t, usagesharing.Config{Transport: svc, MinEntriesPerMessage: 3, MaxQueueSize: 20,
		Breaker: breaker.Config{InitialRecoveryDelay: time.Microsecond, MaxRecoveryDelay: time.Millisecond}})
	stop := start(t, s)
	var offered atomic.Uint64
	var over atomic.Bool
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				offered.Add(1)
				s.Add(visitor(g*1_000_000 + i))
				runtime.Gosched()
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for !over.Load() {
				s := s.Stats()
				assert.Equal(t, s.Accepted, s.Delivered+s.DroppedFailed+s.DroppedShutdown+s.Queued+s.InFlight, "%+v", s)
				runtime.Gosched()
			}
		})
	}
	assert.Eventually(t, func() bool { return s.Stats().Messages > 300 }, patience, time.Millisecond)
	stop()
	over.Store(true)
	wg.Wait()
	stats := s.Stats()
	assert.Equal(t, offered.Load(), stats.Accepted+stats.DroppedFull+stats.NotShared+stats.AfterEnd)
	assert.NotZero(t, stats.Delivered)
	assert.NotZero(t, stats.DroppedFailed)
}

// A deadline of Run's own context within a pause does not make it spin, nor end
// early: entries are accepted until the deadline.
func TestRunWithADeadlineInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, httptestutil.Status(503, ""))
		s := newSender(t, usagesharing.Config{Transport: svc, Breaker: breaker.Config{FailuresToEnterRecovery: 1, InitialRecoveryDelay: time.Minute}})
		add(s, 0, 150)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errOver)
		defer cancel()
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(30*time.Second - 1)
		assert.True(t, s.Add(visitor(1000)))
		assert.Equal(t, errOver, <-done)
		assert.EqualValues(t, 51, s.Stats().DroppedShutdown)
	})
}

// A transport that panics ends Run with that panic; the account is right all the same.
func TestTransportThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, usagesharing.Config{MinEntriesPerMessage: 1, Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			panic("boom")
		})})
		add(s, 0, 5)
		assert.PanicsWithValue(t, "boom", func() { s.Run(t.Context()) })
		assert.Equal(t, usagesharing.Stats{Accepted: 5, DroppedShutdown: 5}, s.Stats())
		assert.False(t, s.Add(visitor(5)))
	})
}

// No lock is held while a Logger, an OnChange or a Transport is called.
func TestCallbacksMayUseTheSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *usagesharing.Sender
		var changes []breaker.State
		calls := 0
		use := func() {
			calls++
			s.Add(visitor(1_000_000 + calls))
			s.Stats()
		}
		s = newSender(t, usagesharing.Config{
			MinEntriesPerMessage: 1, MaxQueueSize: 3, Logger: handlerFunc(use).logger(),
			Breaker: breaker.Config{FailuresToEnterRecovery: 1, OnChange: func(c breaker.Change) {
				changes = append(changes, c.To)
				use()
			}},
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				use()
				return httptestutil.Status(503, "")(r)
			}),
		})
		add(s, 0, 3)
		stop := start(t, s)
		time.Sleep(3 * time.Second)
		stop()
		assert.Equal(t, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Open}, changes)
		assert.GreaterOrEqual(t, calls, 7)
	})
}

// U12: a program that goes on adding does not keep Run from ending.
func TestEndWhileTheProgramGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newService(t, func(r *http.Request) (*http.Response, error) {
			time.Sleep(10 * time.Millisecond)
			return httptestutil.Status(200, "")(r)
		})
		s := newSender(t, usagesharing.Config{Transport: svc})
		var over atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				s.Add(visitor(i))
				time.Sleep(10 * time.Microsecond)
			}
		})
		stop := start(t, s)
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		stop()
		took := time.Since(began)
		over.Store(true)
		wg.Wait()
		assert.LessOrEqual(t, took, 120*time.Millisecond, "for the message in flight and 1000 entries")
		assert.NotZero(t, s.Stats().AfterEnd)
	})
}

// Run leaves no idle connection of a transport of its own.
func TestOwnConnectionsAreClosed(t *testing.T) {
	var closed atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	s := newSender(t, usagesharing.Config{URL: server.URL})
	add(s, 0, 1)
	drain(t, s)
	require.Eventually(t, func() bool { return closed.Load() == 1 }, patience, time.Millisecond)
}

// Those of a transport that was given are not Run's to close.
func TestConnectionsOfOthersAreLeftAlone(t *testing.T) {
	s := newSender(t, usagesharing.Config{Transport: othersTransport{newService(t, httptestutil.Status(200, "")), t}})
	add(s, 0, 1)
	drain(t, s)
}

type othersTransport struct {
	http.RoundTripper
	t *testing.T
}

func (o othersTransport) CloseIdleConnections() { o.t.Error("CloseIdleConnections was called") }
