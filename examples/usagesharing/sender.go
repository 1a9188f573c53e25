package usagesharing

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
	"github.com/respitehttp/respite/transport"
)

// Sender queues usage data and sends it. Make one with [New]; Add and Stats may be
// called from any goroutine, before and while Run runs. A Sender for which Run is
// never called queues until the queue is full, and needs no closing.
type Sender struct {
	cfg    Config // with its defaults
	gate   *transport.Gate
	filter filter
	enough chan struct{} // has a value when enough entries for a message may be queued
	ran    atomic.Bool   // Run was called

	// mu guards the following. It is not held while anything waits, nor while a
	// Transport, a Logger or an OnChange is called.
	mu      sync.Mutex
	open    context.Context // entries are queued until it ends, with that of Run
	tracker *tracker
	queue   queue
}

// Stats is the account of a [Sender] at one instant. Always
//
//	Accepted = Delivered + DroppedFailed + DroppedShutdown + Queued + InFlight
//
// and each call of Add counts once in Accepted, NotShared, DroppedFull or
// AfterEnd. All count entries, except Messages and FailedMessages.
type Stats struct {
	Accepted uint64 // queued by Add

	NotShared   uint64 // the filter, session tracking or SharePercentage left it out
	DroppedFull uint64 // the queue was full
	AfterEnd    uint64 // the context of Run had ended

	Delivered       uint64 // answered with 200
	DroppedFailed   uint64 // in a message that failed
	DroppedShutdown uint64 // not sent, or not answered, when Run ended
	Queued          uint64 // waiting now
	InFlight        uint64 // in the message that is being sent now

	Messages       uint64 // messages delivered or failed
	FailedMessages uint64 // those of them that failed

	State breaker.State // of sending; while it is Open, it pauses
}

// New returns a Sender, or one error that lists every field of cfg that is outside
// its range, with its value and what is accepted. It starts nothing.
func New(cfg Config) (*Sender, error) {
	cfg, err := cfg.withDefaults()
	base := cfg.Transport
	if base == nil {
		base = ownTransport()
	}
	// Also after an error, so that faults of the breaker's settings are told with it.
	gate, gateErr := transport.New(transport.Config{
		Base:     base,
		Classify: policy.Only200,
		Breaker:  cfg.Breaker,
		Logger:   cfg.Logger,
	})
	if err := errors.Join(err, gateErr); err != nil {
		return nil, err
	}
	return &Sender{
		cfg:  cfg,
		gate: gate,
		filter: filter{
			all:             cfg.ShareAllEvidence,
			allQuery:        cfg.ShareAllQueryStringParameters,
			blockedHeaders:  cfg.BlockedHTTPHeaders,
			includedQueries: cfg.IncludedQueryStringParameters,
			percentage:      cfg.SharePercentage,
			seed:            maphash.MakeSeed(),
		},
		enough:  make(chan struct{}, 1),
		open:    context.Background(),
		tracker: newTracker(cfg.RepeatEvidenceInterval),
		queue:   queue{limit: cfg.MaxQueueSize},
	}, nil
}

// ownTransport returns a transport that speaks HTTP/1.1: to send a message at a time,
// HTTP/2 is no better, and its connections outlive CloseIdleConnections when the answer
// to a message was given up just before.
func ownTransport() *http.Transport {
	own := cleanhttp.DefaultPooledTransport()
	own.Protocols = new(http.Protocols)
	own.Protocols.SetHTTP1(true)
	return own
}

// Add offers the evidence of one request, and reports whether it was queued. It was
// not if nothing of it is to be shared, if the same was shared a short while ago, if
// the queue is full, or if the context of Run has ended. Add keeps nothing of e. It
// waits for nothing, but calls the Logger for the first that a full queue drops, and for
// each 1000th after it.
//
// Evidence is the same if what is shared of it is, names and values to the letter,
// whatever its session id and sequence. Of what was shared, the last 1000 are
// remembered.
func (s *Sender) Add(e Evidence) bool {
	var some [32]field // more than most requests have, to spare an allocation
	fields, fingerprint := s.filter.apply(some[:0], e)
	queued, dropped, total := s.enqueue(fields, fingerprint, time.Now())
	if dropped%1000 == 1 {
		s.logger().Warn("usage sharing: queue is full, new entries are dropped", "size", s.cfg.MaxQueueSize, "dropped", dropped, "total", total)
	}
	return queued
}

// enqueue reports whether the fields were queued, and if they found no room, how many
// have not since there was some, and in all.
func (s *Sender) enqueue(fields []field, fingerprint uint64, now time.Time) (queued bool, dropped int, total uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open.Err() != nil:
		s.queue.account.AfterEnd++
		return false, 0, 0
	case len(fields) == 0 || s.tracker.repeats(fingerprint, now):
		s.queue.account.NotShared++
		return false, 0, 0
	}
	if dropped := s.queue.offer(fields); dropped > 0 {
		return false, dropped, s.queue.account.DroppedFull
	}
	s.tracker.shared(fingerprint, now)
	if len(s.queue.entries) == s.cfg.MinEntriesPerMessage {
		select {
		case s.enough <- struct{}{}:
		default:
		}
	}
	return true, 0, 0
}

// Stats returns the account at this instant.
func (s *Sender) Stats() Stats {
	state := s.gate.Breaker.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.queue.stats()
	stats.State = state
	return stats
}

// Run sends what Add queues, one message at a time, until ctx ends, and then
// returns [context.Cause] of ctx.
//
// When ctx ends during a pause, nothing more is sent. Otherwise the message in
// flight may finish, and what is left is sent, even if it is less than a message;
// for all that there is ShutdownTimeout. What could not be sent by then is counted
// and logged as dropped, also a message that was sent but not answered.
//
// Once ctx has ended, Add queues no more; so end it when the program has served its
// last request, and exit when Run has returned. A second call of Run, while the first
// runs or after it, returns an error.
func (s *Sender) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("usagesharing: Run is running, or has ended: a Sender runs once")
	}
	defer s.end()
	defer s.openUntil(ctx)()
	sending, cancel := s.outlast(ctx)
	defer cancel()

	m := newEncoder(s.cfg, s.logger)
	for s.ready(ctx) {
		s.sendNext(sending, m)
	}
	for s.gate.Breaker.State() != breaker.Open && s.sendNext(sending, m) {
	}
	return context.Cause(ctx)
}

// openUntil lets Add queue until ctx ends or the returned function is called.
func (s *Sender) openUntil(ctx context.Context) context.CancelFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	var cancel context.CancelFunc
	s.open, cancel = context.WithCancel(ctx)
	return cancel
}

// ready waits until there is enough for a message and no pause. It reports false
// once ctx has ended.
func (s *Sender) ready(ctx context.Context) bool {
	for ctx.Err() == nil && s.queued() < s.cfg.MinEntriesPerMessage {
		select {
		case <-s.enough:
		case <-ctx.Done():
		}
	}
	if s.gate.Breaker.Wait(ctx) != nil {
		<-ctx.Done() // it may have a deadline within the pause: Wait does not wait for that
	}
	return ctx.Err() == nil
}

func (s *Sender) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue.entries)
}

// end drops what is left, also when Run panics.
func (s *Sender) end() {
	s.mu.Lock()
	dropped := s.queue.dropAll()
	s.mu.Unlock()
	if dropped > 0 {
		s.logger().Warn("usage sharing: entries dropped at shutdown", "dropped", dropped)
	}
	if s.cfg.Transport == nil {
		s.gate.CloseIdleConnections()
	}
}

// outlast returns a context that ends ShutdownTimeout after ctx does. RequestTimeout
// holds in it, whatever limits ctx has.
func (s *Sender) outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	limits := timeouts.Limits{Total: s.cfg.RequestTimeout}
	sending, cancel := context.WithCancel(timeouts.WithLimits(context.WithoutCancel(ctx), limits))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(s.cfg.ShutdownTimeout):
			cancel()
		case <-sending.Done():
		}
	})
	return sending, func() {
		stop()
		cancel()
	}
}

func (s *Sender) logger() *slog.Logger { return cmp.Or(s.cfg.Logger, slog.Default()) }
