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

	// Wait makes requests wait during a pause, instead of being refused; see
	// [Gate].
	Wait bool

	// Logger gets a record of each pause, each cancelled trial and each end of a
	// pause, and none for a request. If nil, slog.Default() at that time does. An
	// error of Base is logged as [Redact] returns it: a Base whose errors hold secrets
	// in a form that it does not know must hide them itself.
	Logger *slog.Logger
}

// New returns the chain of gate, limits and base that cfg describes, or one error
// that lists every field that is outside its range, with its value and what is
// accepted. It starts nothing, and there is nothing to close; call
// CloseIdleConnections when you drop a Gate that has a pool of its own.
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
