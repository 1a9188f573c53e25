package timeouts

import (
	"context"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// exchange is one request, from the start of RoundTrip to the end of the response
// body. It is in one allocation all that the request needs: the request that the
// base gets, the context of it (the type child), the owner of the one timer, and
// the body (the type body) that the caller gets.
//
// One limit runs at a time: the next one that is due. The timer is set no later
// than that, and sets itself anew if it fires too early, so that a limit that moves
// away, as Idle does with each Read, costs a look at the clock and no more.
//
// Instants are durations since the exchange began.
type exchange struct {
	parent  context.Context // the caller's
	caller  *http.Request
	request http.Request // the caller's, with the child as its context
	limits  Limits
	began   time.Time
	done    chan struct{}

	over   atomic.Pointer[Error] // the limit that ended the exchange; written under mu
	ended  atomic.Bool           // err is set for good, and done about to be closed
	closed atomic.Bool           // body is

	mu      sync.Mutex    // guards the following; of others' code, only parent.Err is called under it
	phase   Phase         // what is limited now,
	due     time.Duration // and when that is over; 0: nothing is
	timer   *time.Timer
	set     time.Duration // when the timer fires; 0: it does not
	wakeup  func()        // x.wake
	unwatch func() bool   // takes wakeup back from the parent
	gone    bool          // no limit runs any more
	err     error         // not nil: the exchange has ended
	first   func()        // what is to be called at the end: see child.AfterFunc
	others  map[*func()]bool

	// These are set before the caller has the body.
	body    io.ReadCloser // of the base's response; also written under mu
	watcher watcher       // of it; later written and read under mu
}

func start(req *http.Request, limits Limits) *exchange {
	x := &exchange{parent: req.Context(), caller: req, limits: limits, began: time.Now(), done: make(chan struct{})}
	x.request = *req.WithContext((*child)(x))
	x.wakeup = x.wake

	x.mu.Lock()
	defer x.mu.Unlock()
	x.limit(0, Header, limits.Header)
	if x.parent.Done() != nil {
		x.unwatch = context.AfterFunc(x.parent, x.wakeup)
	}
	return x
}

func (x *exchange) now() time.Duration { return time.Since(x.began) }

// limit makes the given limit the one that runs, from now, or Total if there is no
// such limit or Total is over before it. The caller holds mu.
func (x *exchange) limit(now time.Duration, phase Phase, d time.Duration) {
	x.unlimit()
	if d > 0 {
		if due := now + min(d, math.MaxInt64-now); x.due == 0 || due < x.due {
			x.phase, x.due = phase, due
		}
	}
	x.setTimer(now)
}

// unlimit ends the limit that runs, but for Total. The timer is set no later than
// for Total already. The caller holds mu.
func (x *exchange) unlimit() { x.phase, x.due = Total, x.limits.Total }

// setTimer makes sure that the timer fires when the limit is due, or earlier. The
// caller holds mu.
func (x *exchange) setTimer(now time.Duration) {
	switch {
	case x.due == 0 || x.set != 0 && x.set <= x.due:
		return
	case x.timer == nil:
		x.timer = time.AfterFunc(x.due-now, x.wakeup)
	default:
		x.timer.Reset(x.due - now)
	}
	x.set = x.due
}

// wake is called when the timer fires and when the caller's context ends, and
// finds out what is to be done.
func (x *exchange) wake() {
	x.mu.Lock()
	after := x.look()
	inBody := x.over.Load() != nil && x.body != nil
	x.mu.Unlock()
	after.run()
	// On HTTP/2 the end of the context does not end a Read of the response while a
	// Read of the request body waits. Close does.
	if inBody {
		x.closeBody()
	}
}

// look ends the exchange if the caller's context has ended or the limit that runs is
// over, and sets the timer anew if not. The caller holds mu.
func (x *exchange) look() aftermath {
	if x.err != nil {
		return aftermath{}
	}
	if err := x.parent.Err(); err != nil {
		return x.finish(err)
	}
	x.set = 0
	now := x.now()
	if x.overdue(now) {
		return x.expire()
	}
	x.setTimer(now)
	return aftermath{}
}

// overdue reports whether the limit that runs is over. The caller holds mu.
func (x *exchange) overdue(now time.Duration) bool { return x.due != 0 && now >= x.due }

// expire ends the exchange because the limit that runs is over. The caller holds mu.
func (x *exchange) expire() aftermath {
	x.over.Store(&Error{Phase: x.phase, Limit: x.limits.of(x.phase)})
	return x.finish(context.DeadlineExceeded)
}

// end ends the exchange, if it has not ended: all has arrived, or nothing more is
// wanted.
func (x *exchange) end() {
	x.mu.Lock()
	after := x.finish(context.Canceled)
	x.mu.Unlock()
	after.run()
}

// received ends the exchange because the response has arrived as a whole. On HTTP/2
// the body of the request may still be on its way then, and the end of the context
// would cut it off: such an exchange only lets go.
func (x *exchange) received() {
	x.mu.Lock()
	x.watcher = nil
	var after aftermath
	if x.caller.Body != nil && x.caller.Body != http.NoBody {
		after = x.release()
	} else {
		after = x.finish(context.Canceled)
	}
	x.mu.Unlock()
	after.run()
}

// finish ends the context of the exchange with the given error, if it has not
// ended, and gives back all it holds. The caller holds mu.
func (x *exchange) finish(err error) aftermath {
	if x.err != nil {
		return aftermath{}
	}
	x.err = err
	x.ended.Store(true)
	close(x.done)
	after := x.release()
	after.first, after.others = x.first, x.others
	x.first, x.others = nil, nil
	return after
}

// letGo ends the limits without ending the context. The context no longer follows
// the caller's of its own accord either: that would leave something behind.
func (x *exchange) letGo() {
	x.mu.Lock()
	after := x.release()
	x.mu.Unlock()
	after.run()
}

// release gives back the timer and the watch on the parent. The caller holds mu.
func (x *exchange) release() aftermath {
	x.gone, x.due = true, 0
	if x.timer != nil {
		x.timer.Stop()
	}
	unwatch := x.unwatch
	x.unwatch = nil
	return aftermath{unwatch: unwatch}
}

// aftermath is what remains to be done when mu has been released, since it calls
// other code.
type aftermath struct {
	unwatch func() bool
	first   func()
	others  map[*func()]bool
}

func (a aftermath) run() {
	if a.unwatch != nil {
		a.unwatch()
	}
	if a.first != nil {
		a.first()
	}
	for f := range a.others {
		(*f)()
	}
}

// overError returns the limit that ended the exchange, as an error, or nil.
func (x *exchange) overError() error {
	if over := x.over.Load(); over != nil {
		return over
	}
	return nil
}

// child is the context of the request that the base gets. It ends with the
// caller's, with a limit, or when the exchange is over.
type child exchange

func (c *child) Deadline() (time.Time, bool) {
	if c.limits.Total > 0 { // the caller's is not before it
		return c.began.Add(c.limits.Total), true
	}
	return c.parent.Deadline()
}

func (c *child) Done() <-chan struct{} { return c.done }

func (c *child) Err() error {
	if !c.ended.Load() {
		if c.parent.Err() == nil {
			return nil
		}
		(*exchange)(c).wake() // which was about to be called
	}
	<-c.done // about to be closed: an error before that would be too early
	return c.err
}

func (c *child) Value(key any) any { return c.parent.Value(key) }

// AfterFunc is what package context looks for in a context that is not of its own
// kind, before it derives another from it; without it, each would have a goroutine
// that waits for Done. It gives functions that do not block, and does not mind one
// that is called after it was stopped.
//
// The first one is net/http's, is there from the start and stays to the end. So it
// is kept without the means to take it back.
func (c *child) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		go f()
		return notStopped
	case c.first == nil:
		c.first = f
		return notStopped
	case c.others == nil:
		c.others = map[*func()]bool{}
	}
	key := new(func())
	*key = f
	c.others[key] = true
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		kept := c.others[key]
		delete(c.others, key)
		return kept
	}
}

func notStopped() bool { return false }
