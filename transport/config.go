package transport

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/hashicorp/go-cleanhttp"

	"github.com/respitehttp/respite/breaker"
	"github.com/respitehttp/respite/policy"
	"github.com/respitehttp/respite/timeouts"
)

const defaultTotal = 60 * time.Second

// Config holds the settings of a chain. A zero field means its default, so the
// zero Config is complete.
type Config struct {
	// Base sends the requests. If nil, an http.Transport of the Gate's own does, with
	// a connection pool that is shared with nobody: cleanhttp.DefaultPooledTransport.
	Base http.RoundTripper

	// Limits bounds the time of each request. Here, and only here, a zero Total
	// means 60 s, and a negative one none; Header and Idle are unlimited if zero, and
	// must not be negative. Requests with limits of their own: see
	// [timeouts.WithLimits], where zero is none.
	Limits timeouts.Limits

	// Classify decides what the outcome of a request says about the server. If
	// nil, [policy.Only200] does: any status but 200 is a failure.
	Classify policy.Classifier

	// Breaker says when to pause, and for how long. Its TrialTimeout, 2 min by
	// default, should be longer than a request may take until the header arrives;
	// that is not checked. Its OnChange is called after the change was logged.
	Breaker breaker.Config

	// Wait makes requests wait for the end of a pause, as long as their contexts
	// allow, instead of being refused; see [Gate].
	Wait bool

	// Logger gets these records, and none for a request. If nil, slog.Default() at that
	// time does.
	//
	//   - Warn "sending paused": a pause begins, of the length delay, after so many
	//     failures within the window; status or error is that of the last.
	//   - Warn "pause lengthened": a trial has failed, so the pause goes on for delay,
	//     which grows up to its maximum; failures counts the trials that failed in a row.
	//   - Info "trial cancelled": one said nothing of the server, and delay is as it was.
	//   - Info "sending resumed": a trial has succeeded.
	//
	// An error of Base is logged as [Redact] returns it: a Base whose errors hold
	// secrets in a form that it does not know must hide them itself.
	Logger *slog.Logger
}

// New returns the chain of gate, limits and base that cfg describes, or one error
// that lists every field that is outside its range, with its value and what is
// accepted. It starts nothing. A Gate holds nothing but, if Base is nil, the idle
// connections of its own pool: call CloseIdleConnections when you drop such a one.
func New(cfg Config) (*Gate, error) {
	limits := cfg.Limits
	if limits.Total == 0 {
		limits.Total = defaultTotal
	}
	limits.Total = max(limits.Total, 0)
	onChange := cfg.Breaker.OnChange
	cfg.Breaker.OnChange = func(c breaker.Change) {
		logChange(cfg.Logger, c)
		if onChange != nil {
			onChange(c)
		}
	}
	b, err := breaker.New(cfg.Breaker)
	if err := errors.Join(limits.Validate(), err); err != nil {
		return nil, err
	}
	base := cfg.Base
	if base == nil {
		base = cleanhttp.DefaultPooledTransport()
	}
	return &Gate{
		Base:     &timeouts.Transport{Base: base, Limits: limits},
		Breaker:  b,
		Classify: cfg.Classify,
		Wait:     cfg.Wait,
	}, nil
}
