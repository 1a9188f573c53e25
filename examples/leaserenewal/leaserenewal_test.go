package leaserenewal_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/respitehttp/respite/examples/leaserenewal"
)

var errDown = errors.New("server is down")

// lease runs a Renewal in a bubble and keeps a log of what happens to it.
type lease struct {
	cfg   leaserenewal.Config
	start time.Time

	mu       sync.Mutex
	attempts []time.Duration // when each began, since start
	settled  []time.Duration // when each returned; not those that never do
	expiries []time.Time
	errs     []error
	lost     []time.Duration
	gone     []time.Duration

	cancel context.CancelCauseFunc
	ended  chan struct{}
	err    error // of Run; to be read once ended
}

var errStop = errors.New("stopped by the test")

// keep starts Run with a TTL and what to do at each attempt, counted from 1. It is
// ended with the test.
func keep(t *testing.T, ttl time.Duration, renew func(ctx context.Context, n int) error) *lease {
	l := &lease{start: time.Now(), ended: make(chan struct{})}
	l.cfg = leaserenewal.Config{
		TTL: ttl,
		Renew: func(ctx context.Context, expiry time.Time) error {
			l.mu.Lock()
			l.attempts = append(l.attempts, time.Since(l.start))
			l.expiries = append(l.expiries, expiry)
			n := len(l.attempts)
			l.mu.Unlock()
			defer func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.settled = append(l.settled, time.Since(l.start))
			}()
			return renew(ctx, n)
		},
		OnGone:  func() { l.gone = append(l.gone, time.Since(l.start)) },
		OnLost:  func() { l.lost = append(l.lost, time.Since(l.start)) },
		OnError: func(err error) { l.errs = append(l.errs, err) },
	}
	r, err := leaserenewal.New(l.cfg)
	require.NoError(t, err)
	l.run(t, r)
	return l
}

func (l *lease) run(t *testing.T, r *leaserenewal.Renewal) {
	ctx, cancel := context.WithCancelCause(context.Background())
	l.cancel = cancel
	go func() {
		defer close(l.ended)
		l.err = r.Run(ctx)
	}()
	t.Cleanup(l.stop)
}

// stop ends Run, after which the log may be read: an attempt that Run has left behind
// may begin later than Run ends, but not after that.
func (l *lease) stop() {
	l.cancel(errStop)
	<-l.ended
	synctest.Wait()
}

// gaps are the times from the return of each attempt to the start of the next.
func (l *lease) gaps() []time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(l.attempts); i++ {
		gaps = append(gaps, l.attempts[i]-l.settled[i-1])
	}
	return gaps
}

func succeed(context.Context, int) error { return nil }
func fail(context.Context, int) error    { return errDown }
func hang(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// sleep sleeps unless ctx ends, which is that of an attempt: no test leaves one asleep.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func assertWithin[T cmp.Ordered](t *testing.T, low, high, got T, what string) {
	t.Helper()
	assert.Truef(t, low <= got && got <= high, "%s is %v, not from %v to %v", what, got, low, high)
}

// L1: a renewal is due half a TTL after the start and after each success, give or
// take 10 %, and stamps the moment of its start plus the TTL.
func TestL1HalfTTLCadence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := keep(t, time.Hour, func(ctx context.Context, _ int) error {
			sleep(ctx, 5*time.Second) // a slow success: the next is due after its end
			return nil
		})
		time.Sleep(200 * time.Hour)
		l.stop()

		assert.Empty(t, l.lost)
		assert.Empty(t, l.errs)
		assertWithin(t, 27*time.Minute, 33*time.Minute, l.attempts[0], "the first renewal")
		low, high, sum := time.Hour, time.Duration(0), time.Duration(0)
		for i, gap := range l.gaps() {
			assertWithin(t, 27*time.Minute, 33*time.Minute, gap, "a gap")
			low, high, sum = min(low, gap), max(high, gap), sum+gap
			assert.Equal(t, l.start.Add(l.attempts[i]+time.Hour), l.expiries[i])
		}
		assert.Greater(t, high-low, 5*time.Minute, "the gaps should be spread")
		assertWithin(t, 29*time.Minute, 31*time.Minute, sum/time.Duration(len(l.gaps())), "the mean gap")
	})
}

// L1: each tick is started only after the one before has settled.
func TestL1OneAttemptAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := 0
		l := keep(t, time.Minute, func(ctx context.Context, n int) error {
			running++
			defer func() { running-- }()
			assert.Equal(t, 1, running)
			sleep(ctx, time.Duration(n%7)*time.Second) // within the deadline of 7.5 s
			if n%3 == 0 {
				return errDown
			}
			return nil
		})
		time.Sleep(time.Hour)
		l.stop()
		assert.Greater(t, len(l.attempts), 50)
		for _, gap := range l.gaps() {
			assert.Positive(t, gap)
		}
	})
}

// L2: 1 s, doubling, up to the smaller of 30 s and TTL/20; jitter only shortens. A
// success resets it and returns to the cadence of half a TTL.
func TestL2RetryDelays(t *testing.T) {
	for _, test := range []struct {
		ttl  time.Duration
		want []time.Duration
	}{
		{24 * time.Hour, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}},
		{time.Hour, []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}},
		{5 * time.Minute, []time.Duration{1e9, 2e9, 4e9, 8e9, 15e9, 15e9, 15e9}},
		{time.Minute, []time.Duration{1e9, 2e9, 3e9, 3e9, 3e9, 3e9, 3e9}},
		{10 * time.Second, []time.Duration{5e8, 5e8, 5e8, 5e8, 5e8, 5e8, 5e8}}, // the cap wins over the first second
		{time.Second, []time.Duration{5e7, 5e7, 5e7, 5e7, 5e7, 5e7, 5e7}},
	} {
		t.Run(test.ttl.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				round := len(test.want) + 1 // that many failures, then a success
				l := keep(t, test.ttl, func(_ context.Context, n int) error {
					if n%round != 0 {
						return errDown
					}
					return nil
				})
				time.Sleep(10 * test.ttl)
				l.stop()

				require.Greater(t, len(l.attempts), 5*round)
				shortened := false
				for i, gap := range l.gaps() {
					if i%round == round-1 { // after the success
						assertWithin(t, test.ttl*45/100, test.ttl*55/100, gap, "the gap after a success")
						continue
					}
					want := test.want[i%round]
					assertWithin(t, want*9/10, want, gap, fmt.Sprintf("gap %d", i))
					shortened = shortened || gap < want
				}
				assert.True(t, shortened, "there should be jitter")
			})
		})
	}
}

// L2: an outage of 10 minutes around the renewal of a 1-hour lease gets many
// attempts, not one.
func TestL2TenMinuteOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now().Add(25 * time.Minute)
		l := keep(t, time.Hour, func(context.Context, int) error {
			if down := time.Since(from); down > 0 && down < 10*time.Minute {
				return errDown
			}
			return nil
		})
		time.Sleep(time.Hour)
		l.stop()
		assert.GreaterOrEqual(t, len(l.errs), 8) // the first attempt may come as late as minute 33
		assert.Empty(t, l.lost)
		assertWithin(t, 35*time.Minute, 35*time.Minute+30*time.Second, l.attempts[len(l.errs)], "the first success")
	})
}

// L2: as many as the documentation says, if the outage begins when the renewal is due.
func TestL2AttemptsInAnOutage(t *testing.T) {
	for name, test := range map[string]struct {
		hangs       bool
		least, most int
	}{"refuses": {false, 24, 28}, "hangs": {true, 12, 14}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var first time.Time
				l := keep(t, time.Hour, func(ctx context.Context, n int) error {
					if n == 1 {
						first = time.Now()
					}
					if time.Since(first) >= 10*time.Minute {
						return nil
					}
					if test.hangs {
						<-ctx.Done()
					}
					return errDown
				})
				time.Sleep(time.Hour)
				l.stop()
				assertWithin(t, test.least, test.most, len(l.errs), "failed attempts")
				assert.Empty(t, l.lost)
			})
		})
	}
}

// D46: renewals are retried until the expiry.
func TestD46RetriedUntilExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := keep(t, time.Minute, func(context.Context, int) error {
			if time.Since(start) < 50*time.Second {
				return errDown
			}
			return nil
		})
		time.Sleep(120 * time.Second)
		l.stop()

		failed := len(l.errs)
		assert.GreaterOrEqual(t, failed, 2)
		for _, at := range l.attempts[:failed] {
			assertWithin(t, 25*time.Second, 50*time.Second, at, "a failed attempt")
		}
		assert.Less(t, l.attempts[failed], 60*time.Second)
		assertWithin(t, 27*time.Second, 33*time.Second, l.gaps()[failed], "the gap after the success")
		assert.Empty(t, l.lost)
		assert.Empty(t, l.gone)
	})
}

// L3, D48: an attempt is over after a quarter of the interval, or 30 s, whether its
// Renew heeds the context or not.
func TestL3D48HangingRenewalIsCutOff(t *testing.T) {
	release := make(chan struct{})
	ignore := func(context.Context, int) error { <-release; return nil }
	for _, test := range []struct {
		name     string
		ttl      time.Duration
		renew    func(context.Context, int) error
		deadline time.Duration
	}{
		{"heeds its context", time.Minute, hang, 7500 * time.Millisecond},
		{"ignores its context", time.Minute, ignore, 7500 * time.Millisecond},
		{"ignores it, long TTL", time.Hour, ignore, 30 * time.Second},
		{"ignores it, just below the limit", 4 * time.Minute, ignore, 30 * time.Second},
		{"ignores it, short TTL", 8 * time.Second, ignore, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				defer close(release)
				l := keep(t, test.ttl, test.renew)
				time.Sleep(2 * test.ttl)
				l.stop()

				before := 0
				for i, at := range l.attempts {
					if at < test.ttl {
						before++
					}
					if i > 0 {
						cut := l.attempts[i-1] + test.deadline
						assertWithin(t, cut+min(900*time.Millisecond, test.ttl*9/200), cut+min(30*time.Second, test.ttl/20), at, "an attempt")
					}
				}
				assert.GreaterOrEqual(t, before, 2)
				assert.Greater(t, len(l.attempts), before, "attempts should go on after the loss")
				assert.Equal(t, []time.Duration{test.ttl}, l.lost)
				assert.GreaterOrEqual(t, len(l.errs), len(l.attempts)-1, "the last may have been ended by the test")
				for _, err := range l.errs {
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		})
	}
}

// L3: the error of an attempt that was left behind says for how long it was waited
// for, and is a timeout.
func TestL3ErrorOfAnAbandonedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		l := keep(t, time.Minute, func(context.Context, int) error { <-release; return nil })
		time.Sleep(50 * time.Second)
		l.stop()
		require.NotEmpty(t, l.errs)
		assert.EqualError(t, l.errs[0], "leaserenewal: not renewed within 7.5s")
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, l.errs[0], &timeout)
		assert.True(t, timeout.Timeout())
	})
}

// D48: what an attempt that was left behind comes to later causes no notice, and does
// not count as a renewal.
func TestD48LateResultsAreDropped(t *testing.T) {
	for name, late := range map[string]func() error{
		"success": func() error { return nil },
		"error":   func() error { return errDown },
		"gone":    func() error { return leaserenewal.ErrGone },
		"panic":   func() error { panic("late") },
		"goexit":  func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := keep(t, time.Minute, func(context.Context, int) error {
					time.Sleep(8 * time.Second) // just over the deadline of 7.5 s
					return late()
				})
				time.Sleep(90 * time.Second)
				l.stop()
				time.Sleep(10 * time.Second)

				assert.Equal(t, []time.Duration{time.Minute}, l.lost)
				assert.Empty(t, l.gone)
				assert.Equal(t, errStop, l.err)
				assert.GreaterOrEqual(t, len(l.errs), 4)
				for _, err := range l.errs {
					assert.EqualError(t, err, "leaserenewal: not renewed within 7.5s")
				}
			})
		})
	}
}

// L4, D49: an error that matches ErrGone ends the loop, with one notice.
func TestL4GoneEndsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := keep(t, time.Minute, func(_ context.Context, n int) error {
			if n == 2 {
				return fmt.Errorf("no such object: %w", leaserenewal.ErrGone)
			}
			return nil
		})
		<-l.ended
		at := time.Since(l.start)
		time.Sleep(time.Hour)

		assert.Equal(t, leaserenewal.ErrGone, l.err)
		assert.Len(t, l.attempts, 2)
		assert.Equal(t, []time.Duration{at}, l.gone)
		assert.Empty(t, l.lost)
		assert.Empty(t, l.errs)
	})
}

// L4: every other error is reported as it is, and retried.
func TestL4OtherErrorsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := keep(t, time.Minute, func(_ context.Context, n int) error {
			if n <= 3 {
				return errDown
			}
			return nil
		})
		time.Sleep(time.Minute)
		l.stop()
		assert.Equal(t, []error{errDown, errDown, errDown}, l.errs)
		assert.Empty(t, l.gone)
	})
}

// L4: lost, once for each loss, at the instant when the TTL has passed since the start
// of the last renewal that succeeded; the loop goes on, and a success ends the loss.
func TestL4LostOncePerLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := keep(t, time.Minute, func(ctx context.Context, _ int) error {
			sleep(ctx, 2*time.Second)
			if down := time.Since(start) % (5 * time.Minute); down < 3*time.Minute {
				return errDown
			}
			return nil
		})
		time.Sleep(14*time.Minute + 30*time.Second)
		l.stop()

		// The clocks of the loss start at 0 and at the last success before minutes
		// 5 and 10.
		want := []time.Duration{time.Minute}
		for _, outage := range []time.Duration{5 * time.Minute, 10 * time.Minute} {
			last := time.Duration(0)
			for i, settled := range l.settled {
				if settled < outage {
					last = l.attempts[i]
				}
			}
			want = append(want, last+time.Minute)
		}
		assert.Equal(t, want, l.lost)
		assert.Equal(t, errStop, l.err)
	})
}

// L4: the loss is reported in the middle of an attempt too; if the attempt then
// succeeds, the lease is held again.
func TestL4LostDuringAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := keep(t, time.Minute, func(ctx context.Context, _ int) error {
			switch at := time.Since(start); {
			case at < 56*time.Second:
				return errDown
			case at < time.Minute:
				sleep(ctx, 7*time.Second)
			}
			return nil
		})
		time.Sleep(3 * time.Minute)
		l.stop()
		assert.Equal(t, []time.Duration{time.Minute}, l.lost)
		i := len(l.errs) // the attempt that was under way
		assert.Less(t, l.attempts[i], time.Minute)
		assert.Greater(t, l.settled[i], time.Minute)
		assertWithin(t, 27*time.Second, 33*time.Second, l.gaps()[i], "the gap after it")
	})
}

// L5: every fault is reported at once, with field, value and range.
func TestL5NewRefuses(t *testing.T) {
	renew := func(context.Context, time.Time) error { return nil }
	for _, test := range []struct {
		cfg  leaserenewal.Config
		want string
	}{
		{leaserenewal.Config{Renew: renew}, "leaserenewal: TTL is 0s; accepted: > 0"},
		{leaserenewal.Config{TTL: -time.Second, Renew: renew}, "leaserenewal: TTL is -1s; accepted: > 0"},
		{leaserenewal.Config{TTL: time.Second}, "leaserenewal: Renew is nil; accepted: a function"},
		{leaserenewal.Config{}, "leaserenewal: TTL is 0s; accepted: > 0\nleaserenewal: Renew is nil; accepted: a function"},
	} {
		r, err := leaserenewal.New(test.cfg)
		assert.Nil(t, r)
		assert.EqualError(t, err, test.want)
	}
}

// The notices are optional.
func TestNoticesMayBeNil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r, err := leaserenewal.New(leaserenewal.Config{TTL: time.Second, Renew: func(context.Context, time.Time) error {
			if n++; n < 50 {
				return errDown
			}
			return leaserenewal.ErrGone
		}})
		require.NoError(t, err)
		assert.Equal(t, leaserenewal.ErrGone, r.Run(t.Context()))
		assert.Equal(t, 50, n)
	})
}

// L6: Run returns as soon as its context ends, with the cause, whatever it is doing,
// and reports nothing of it.
func TestL6EndOfContext(t *testing.T) {
	release := make(chan struct{})
	for _, test := range []struct {
		name  string
		after time.Duration
		renew func(context.Context, int) error
	}{
		{"at once", 0, succeed},
		{"in the first wait", 10 * time.Second, succeed},
		{"in a retry wait", 35 * time.Second, fail},
		{"in a renewal", 34 * time.Second, hang},
		{"in a renewal that ignores it", 34 * time.Second, func(context.Context, int) error { <-release; return nil }},
		{"in a renewal that fails with it", 34 * time.Second, func(ctx context.Context, n int) error { hang(ctx, n); return leaserenewal.ErrGone }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				defer close(release)
				l := keep(t, time.Minute, test.renew)
				time.Sleep(test.after)
				synctest.Wait()
				errs := len(l.errs)
				l.stop()
				assert.Equal(t, test.after, time.Since(l.start))
				assert.Equal(t, errStop, l.err)

				attempts := len(l.attempts)
				time.Sleep(time.Hour)
				assert.Len(t, l.attempts, attempts)
				assert.Len(t, l.errs, errs)
				assert.Empty(t, l.gone)
				assert.Empty(t, l.lost)
			})
		})
	}
}

// L6: with a context that is over already, nothing is renewed.
func TestL6ContextOverBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errStop)
		start := time.Now()
		r, err := leaserenewal.New(leaserenewal.Config{TTL: 1, Renew: func(context.Context, time.Time) error {
			t.Error("renewed")
			return nil
		}})
		require.NoError(t, err)
		assert.Equal(t, errStop, r.Run(ctx))
		assert.Zero(t, time.Since(start))
	})
}

// L6: a Renewal runs once: a second Run is refused, while the first runs and after.
func TestL6RunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *leaserenewal.Renewal
		r, err := leaserenewal.New(leaserenewal.Config{TTL: time.Minute, Renew: func(ctx context.Context, _ time.Time) error {
			assert.EqualError(t, r.Run(ctx), "leaserenewal: Run was called before; a Renewal runs once")
			return leaserenewal.ErrGone
		}})
		require.NoError(t, err)
		assert.Equal(t, leaserenewal.ErrGone, r.Run(t.Context()))
		assert.ErrorContains(t, r.Run(t.Context()), "Run was called before")
	})
}

// A panic of Renew or of a notice reaches the caller of Run, and leaves nothing
// behind: the bubble would tell. The context of an attempt under way ends.
func TestPanicsReachTheCaller(t *testing.T) {
	boom := func() { panic("boom") }
	for name, set := range map[string]func(*leaserenewal.Config){
		"Renew": func(c *leaserenewal.Config) {
			c.Renew = func(context.Context, time.Time) error { panic("boom") }
		},
		"OnError": func(c *leaserenewal.Config) {
			c.Renew = func(context.Context, time.Time) error { return errDown }
			c.OnError = func(error) { boom() }
		},
		"OnGone": func(c *leaserenewal.Config) {
			c.Renew = func(context.Context, time.Time) error { return leaserenewal.ErrGone }
			c.OnGone = boom
		},
		"OnLost": func(c *leaserenewal.Config) {
			c.Renew = func(ctx context.Context, _ time.Time) error { return hang(ctx, 0) }
			c.OnLost = boom
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := leaserenewal.Config{TTL: time.Minute}
				set(&cfg)
				r, err := leaserenewal.New(cfg)
				require.NoError(t, err)
				assert.PanicsWithValue(t, "boom", func() { r.Run(context.Background()) })
				assert.Error(t, r.Run(t.Context()))
			})
		})
	}
}

// A Renew that ends its goroutine is a failure.
func TestGoexitIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := keep(t, time.Minute, func(context.Context, int) error { runtime.Goexit(); return nil })
		time.Sleep(2 * time.Minute)
		l.stop()
		assert.GreaterOrEqual(t, len(l.errs), 25)
		assert.ErrorContains(t, l.errs[0], "Goexit")
		assert.Equal(t, []time.Duration{time.Minute}, l.lost)
	})
}

// A notice may end the context of Run.
func TestNoticesMayEndRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		r, err := leaserenewal.New(leaserenewal.Config{
			TTL:     time.Minute,
			Renew:   func(context.Context, time.Time) error { return errDown },
			OnError: func(error) { cancel(errStop) },
		})
		require.NoError(t, err)
		assert.Equal(t, errStop, r.Run(ctx))
	})
}

// D37: tiny TTLs neither panic nor give a hot loop.
func TestD37TinyTTL(t *testing.T) {
	for _, ttl := range []time.Duration{1, 2, 3, 19, 20, time.Microsecond, time.Millisecond} {
		for name, renew := range map[string]func(context.Context, int) error{"succeeds": succeed, "fails": fail, "hangs": hang} {
			t.Run(fmt.Sprintf("%v %s", ttl, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := keep(t, ttl, renew)
					time.Sleep(time.Second)
					l.stop()
					most := 1000
					if ttl == time.Millisecond {
						most = 2000 // it is half a TTL from one to the next
					}
					assert.LessOrEqual(t, len(l.attempts), most)
					assert.GreaterOrEqual(t, len(l.attempts), most*2/5)
				})
			})
		}
	}
}

// D37: every delay of the schedule is above zero and below the TTL.
func TestD37Schedule(t *testing.T) {
	for _, ttl := range []time.Duration{time.Millisecond, 1500 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond, time.Second, time.Minute, time.Hour, 1<<63 - 1} {
		for failures := range 100 {
			for range 100 {
				d := leaserenewal.Next(ttl, failures)
				require.Positive(t, d)
				require.Less(t, d, ttl)
			}
		}
	}
	for _, ttl := range []time.Duration{1, 2, 3, time.Millisecond - 1} {
		for failures := range 100 {
			require.Equal(t, time.Millisecond, leaserenewal.Next(ttl, failures))
		}
	}
}

// D50: a server that refuses at once is not asked in a hot loop.
func TestD50NoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := keep(t, time.Minute, fail)
		time.Sleep(time.Minute)
		l.stop()
		assert.LessOrEqual(t, len(l.attempts), 60)
		assert.GreaterOrEqual(t, len(l.attempts), 8)
		for _, gap := range l.gaps() {
			assert.GreaterOrEqual(t, gap, 100*time.Millisecond)
		}
	})
}

// L1 to L4, for any course of attempts: what Run does is told by an oracle that knows
// only when each attempt began, how long it took, and what it came to.
func TestModel(t *testing.T) {
	const ttl, deadline = time.Minute, 7500 * time.Millisecond
	rapid.Check(t, func(rt *rapid.T) {
		takes := rapid.SliceOfN(rapid.IntRange(0, 12), 1, 20).Draw(rt, "takes") // seconds
		fails := rapid.SliceOfN(rapid.Bool(), 1, 20).Draw(rt, "fails")
		downUntil := rapid.IntRange(0, 80).Draw(rt, "downUntil")
		took := func(n int) time.Duration { return time.Duration(takes[n%len(takes)]) * time.Second }
		failed := func(n int) bool { return n < downUntil || fails[n%len(fails)] }
		synctest.Test(t, func(t *testing.T) {
			l := keep(t, ttl, func(_ context.Context, n int) error {
				time.Sleep(took(n - 1))
				if failed(n - 1) {
					return errDown
				}
				return nil
			})
			const end = 15 * time.Minute
			time.Sleep(end)
			l.stop()
			time.Sleep(time.Minute) // for the attempt that was left behind
			synctest.Wait()

			var lost []time.Duration
			errs, failures, settled, expiry := 0, 0, time.Duration(0), ttl
			for n, start := range l.attempts {
				gap := start - settled
				if failures == 0 {
					assertWithin(t, 27*time.Second, 33*time.Second, gap, "a gap after a success")
				} else {
					d := min(time.Second<<(min(failures, 10)-1), ttl/20)
					assertWithin(t, d*9/10, d, gap, "a gap after a failure")
				}
				if settled = start + min(took(n), deadline); settled > end {
					break
				}
				if failed(n) || took(n) > deadline {
					failures++
					errs++
					continue
				}
				failures = 0
				if settled > expiry {
					lost = append(lost, expiry)
				}
				expiry = start + ttl
			}
			if expiry < end {
				lost = append(lost, expiry)
			}
			assert.Equal(t, lost, l.lost)
			assert.Len(t, l.errs, errs)
			assert.Equal(t, errStop, l.err)
		})
	})
}

// suspended runs a lease whose machine is suspended at a given time for a while, and a
// day later again: the wall clock goes on, the monotonic one, and so all timers, do not.
func suspended(t *testing.T, ttl, at, sleep time.Duration, renew func(context.Context, int) error) *lease {
	l := &lease{start: time.Now(), ended: make(chan struct{})}
	l.cfg = leaserenewal.Config{
		TTL: ttl,
		Renew: func(ctx context.Context, _ time.Time) error {
			l.attempts = append(l.attempts, time.Since(l.start))
			return renew(ctx, len(l.attempts))
		},
		OnLost:  func() { l.lost = append(l.lost, time.Since(l.start)) },
		OnError: func(err error) { l.errs = append(l.errs, err) },
	}
	r, err := leaserenewal.New(l.cfg)
	require.NoError(t, err)
	r.SetWall(func() time.Time {
		now := time.Now().Round(0)
		for again := at; again <= time.Since(l.start); again += 24 * time.Hour {
			now = now.Add(sleep)
		}
		return now
	})
	l.run(t, r)
	return l
}

// A machine that was suspended for less than the TTL renews as soon as the wall clock
// says that it is time.
func TestSuspendedRenewsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := suspended(t, time.Hour, 10*time.Minute, 40*time.Minute, succeed)
		time.Sleep(60 * time.Minute)
		l.stop()
		assertWithin(t, 10*time.Minute, 10*time.Minute+30*time.Second, l.attempts[0], "the renewal after waking")
		assert.Empty(t, l.lost, "there were 10 minutes left")
		assertWithin(t, 27*time.Minute, 33*time.Minute, l.attempts[1]-l.attempts[0], "the next gap")
	})
}

// A machine that was suspended for longer than the TTL reports the loss, once, and
// renews at once; the lease is then held again.
func TestSuspendedForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := suspended(t, time.Hour, 10*time.Minute, 3*time.Hour, succeed)
		time.Sleep(3 * time.Hour)
		l.stop()
		require.Len(t, l.lost, 1)
		assertWithin(t, 10*time.Minute, 10*time.Minute+30*time.Second, l.lost[0], "the loss")
		assert.Equal(t, l.lost[0], l.attempts[0])
		assertWithin(t, 27*time.Minute, 33*time.Minute, l.attempts[1]-l.attempts[0], "the next gap")
	})
}

// A second loss is reported too.
func TestSuspendedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := suspended(t, time.Hour, 10*time.Minute, 3*time.Hour, succeed)
		time.Sleep(25 * time.Hour)
		l.stop()
		require.Len(t, l.lost, 2)
		assertWithin(t, 24*time.Hour+10*time.Minute, 24*time.Hour+10*time.Minute+30*time.Second, l.lost[1], "the second loss")
	})
}

// The loss that the wall clock told is not told again by the monotonic one; retries go
// on at their own pace.
func TestSuspendedAndServerDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := suspended(t, time.Hour, 10*time.Minute, 3*time.Hour, fail)
		time.Sleep(3 * time.Hour)
		l.stop()
		assert.Len(t, l.lost, 1)
		for i := 1; i < len(l.attempts); i++ {
			assert.GreaterOrEqual(t, l.attempts[i]-l.attempts[i-1], 900*time.Millisecond)
		}
	})
}

// A wall clock that is set back changes nothing.
func TestWallClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := suspended(t, time.Hour, 10*time.Minute, -48*time.Hour, func(_ context.Context, n int) error {
			if n == 1 {
				return nil
			}
			return errDown
		})
		time.Sleep(3 * time.Hour)
		l.stop()
		assertWithin(t, 27*time.Minute, 33*time.Minute, l.attempts[0], "the first renewal")
		assert.Equal(t, []time.Duration{l.attempts[0] + time.Hour}, l.lost)
	})
}

// A renewal that succeeds while OnLost is busy has succeeded, though its deadline is
// over when Run gets to see it.
func TestL4SuccessWhileOnLostIsBusy(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			renewal, err := leaserenewal.New(leaserenewal.Config{
				TTL: time.Minute,
				Renew: func(context.Context, time.Time) error {
					if time.Since(start) < 57*time.Second {
						return errors.New("not yet")
					}
					time.Sleep(4 * time.Second)
					return nil
				},
				OnLost:  func() { time.Sleep(10 * time.Second) },
				OnError: func(err error) { require.EqualError(t, err, "not yet") },
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
			defer cancel()
			require.Equal(t, context.DeadlineExceeded, renewal.Run(ctx))
		})
	}
}

// L6: once the context has ended, nobody is told anything.
func TestL6NoNoticeAfterTheEnd(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			renewal, err := leaserenewal.New(leaserenewal.Config{
				TTL:   time.Minute,
				Renew: func(context.Context, time.Time) error { return errors.New("no") },
				OnError: func(error) {
					cancel()
					time.Sleep(40 * time.Second)
				},
				OnLost: func() { t.Error("told after the end") },
			})
			require.NoError(t, err)
			require.Equal(t, context.Canceled, renewal.Run(ctx))
		})
	}
}

// suspendedAfter is the wall clock of a machine that is suspended for an hour soon.
func suspendedAfter(d time.Duration) func() time.Time {
	start := time.Now()
	return func() time.Time {
		now := time.Now()
		if now.Sub(start) >= d {
			now = now.Add(time.Hour)
		}
		return now
	}
}

// L6: nor is anything renewed, when the context ends in the very instant of the loss.
func TestL6NoRenewalAfterTheEnd(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			renewal, err := leaserenewal.New(leaserenewal.Config{
				TTL: time.Minute,
				Renew: func(ctx context.Context, _ time.Time) error {
					assert.NoError(t, ctx.Err())
					return errors.New("no")
				},
				OnLost: cancel,
			})
			require.NoError(t, err)
			renewal.SetWall(suspendedAfter(time.Second))
			require.Equal(t, context.Canceled, renewal.Run(ctx))
		})
	}
}

// L6: nor is a loss told that the wall clock shows when the context has ended.
func TestL6NoLossAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		renewal, err := leaserenewal.New(leaserenewal.Config{
			TTL:    time.Minute,
			Renew:  func(context.Context, time.Time) error { return nil },
			OnLost: func() { t.Error("told after the end") },
		})
		require.NoError(t, err)
		renewal.SetWall(suspendedAfter(time.Second))
		time.AfterFunc(time.Second, cancel)
		require.Equal(t, context.Canceled, renewal.Run(ctx))
	})
}

// L6: nor a loss in the middle of an attempt, when the context has ended but does not
// show it yet, as one may that follows another.
func TestL6LossUnderALaggingContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx := lagging{context.Background(), start.Add(time.Minute - time.Millisecond), make(chan struct{})}
		time.AfterFunc(time.Minute+time.Millisecond, func() { close(ctx.done) })
		var attempting atomic.Bool
		renewal, err := leaserenewal.New(leaserenewal.Config{
			TTL: time.Minute,
			Renew: func(ctx context.Context, _ time.Time) error {
				if time.Since(start) < 53*time.Second {
					return errDown
				}
				attempting.Store(true) // for 7.5 s, so when the TTL is over
				<-ctx.Done()
				return context.Cause(ctx)
			},
			OnLost: func() { t.Error("told after the end") },
		})
		require.NoError(t, err)
		require.Equal(t, context.Canceled, renewal.Run(ctx))
		require.True(t, attempting.Load())
		require.Equal(t, time.Minute+time.Millisecond, time.Since(start))
	})
}

// lagging is a context that has an error some time before it is done.
type lagging struct {
	context.Context
	ends time.Time
	done chan struct{}
}

func (c lagging) Done() <-chan struct{} { return c.done }
func (c lagging) Err() error {
	if time.Now().Before(c.ends) {
		return nil
	}
	return context.Canceled
}

// L4: by the wall clock, too, the TTL counts from the start of a renewal, not from its
// end, which the server has not seen.
func TestL4WallClockCountsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var suspended time.Duration
		wall := func() time.Time { return time.Now().Add(suspended) }
		var expiry time.Time
		lost := 0
		ctx, cancel := context.WithCancel(t.Context())
		renewal, err := leaserenewal.New(leaserenewal.Config{
			TTL: time.Minute,
			Renew: func(_ context.Context, e time.Time) error {
				if expiry.IsZero() {
					expiry = e
					time.Sleep(5 * time.Second)
					suspended = time.Until(expiry) + time.Second // after the expiry, but not 1 min from now
				}
				return nil
			},
			OnLost: func() {
				lost++
				cancel()
			},
		})
		require.NoError(t, err)
		renewal.SetWall(wall)
		time.AfterFunc(45*time.Second, cancel)
		require.Equal(t, context.Canceled, renewal.Run(ctx))
		require.Equal(t, 1, lost)
	})
}

// L4: nobody is told twice of one loss, though the wall clock and the other one tell it
// at the same instant.
func TestL4LossByBothClocks(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			lost := 0
			renewal, err := leaserenewal.New(leaserenewal.Config{
				TTL:    time.Minute,
				Renew:  func(context.Context, time.Time) error { return errors.New("no") },
				OnLost: func() { lost++ },
			})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			require.Equal(t, context.DeadlineExceeded, renewal.Run(ctx))
			require.Equal(t, 1, lost)
		})
	}
}

// A difference of readings of the wall clock is not one of the monotonic clock, which
// does not see that the machine was suspended.
func TestWallClockIsNotMonotonic(t *testing.T) {
	now := leaserenewal.WallClock()
	assert.Equal(t, now.Round(0), now)
	assert.WithinDuration(t, time.Now(), now, time.Minute)
}
