// Command demo shows what package configstream does: it follows the configuration of
// three nodes that die and come back.
//
//	go run ./examples/configstream/demo
//	go run ./examples/configstream/demo -short
//	go run ./examples/configstream/demo -host ::1
//
// The nodes are its own, on real ports. It ends by itself, or with Ctrl-C.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/respitehttp/respite/breaker/backoff"
	"github.com/respitehttp/respite/examples/configstream"
	"github.com/respitehttp/respite/examples/internal/demo"
	"github.com/respitehttp/respite/timeouts"
)

func main() { demo.Main(run) }

type options struct {
	host      string
	duration  time.Duration
	heartbeat time.Duration
	listener  configstream.Config
	short     bool
}

func parse(args []string, help io.Writer) (options, error) {
	o := options{listener: configstream.Config{
		Backoff: backoff.Exponential{Initial: 100 * time.Millisecond, Max: 10 * time.Second, Multiplier: 10},
		Limits:  timeouts.Limits{Header: 10 * time.Second, Idle: 5 * time.Minute},
	}}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.StringVar(&o.host, "host", "127.0.0.1", "`address` of the nodes, such as ::1")
	flags.DurationVar(&o.duration, "duration", 18*time.Second, "when the demo ends, above 0; what the nodes do is spread over it")
	flags.DurationVar(&o.heartbeat, "heartbeat", time.Second, "time between two blank lines of a node, above 0")
	flags.StringVar(&o.listener.Path, "path", "/pools/default/bs/main", "`path` of the stream")
	flags.DurationVar(&o.listener.Backoff.Initial, "wait", o.listener.Backoff.Initial, "first wait between two rounds, above 0")
	flags.DurationVar(&o.listener.Backoff.Max, "wait-max", o.listener.Backoff.Max, "longest wait between two rounds, at least -wait")
	flags.Float64Var(&o.listener.Backoff.Multiplier, "wait-multiplier", o.listener.Backoff.Multiplier, "growth of the wait, at least 1")
	flags.Float64Var(&o.listener.Backoff.Jitter, "wait-jitter", 0, "largest part that chance takes off a wait, at least 0 and below 1")
	flags.DurationVar(&o.listener.Limits.Header, "header", o.listener.Limits.Header, "limit for the header, above 0")
	flags.DurationVar(&o.listener.Limits.Idle, "idle", o.listener.Limits.Idle, "limit for silence, above 0")
	flags.IntVar(&o.listener.MaxLine, "max-line", 20<<20, "limit for a line in bytes, above 0")
	flags.BoolVar(&o.short, "short", false, "make -duration a quarter, and -wait-max a tenth, of what they are")
	if err := demo.Parse(flags, args, help); err != nil {
		return o, err
	}
	if o.short {
		o.duration /= 4
		o.listener.Backoff.Max /= 10
	}

	b, l := o.listener.Backoff, o.listener.Limits
	var faults demo.Faults
	faults.Check(o.duration > 0, "-duration", o.duration, "> 0")
	faults.Check(o.heartbeat > 0, "-heartbeat", o.heartbeat, "> 0")
	faults.Check(strings.HasPrefix(o.listener.Path, "/") && !strings.ContainsAny(o.listener.Path, "?#%"), "-path", o.listener.Path, "a path that begins with /, without ?, # and %")
	faults.Check(b.Initial > 0, "-wait", b.Initial, "> 0")
	faults.Check(b.Max >= b.Initial, "-wait-max", b.Max, fmt.Sprintf(">= -wait, %v", b.Initial))
	faults.Check(backoff.Exponential{Multiplier: b.Multiplier}.Validate() == nil && b.Multiplier != 0, "-wait-multiplier", b.Multiplier, ">= 1 and finite")
	faults.Check(backoff.Exponential{Jitter: b.Jitter}.Validate() == nil, "-wait-jitter", b.Jitter, ">= 0 and < 1")
	faults.Check(l.Header > 0, "-header", l.Header, "> 0")
	faults.Check(l.Idle > 0, "-idle", l.Idle, "> 0")
	faults.Check(o.listener.MaxLine > 0, "-max-line", o.listener.MaxLine, "> 0")
	return o, faults.Err()
}

func run(ctx context.Context, args []string, std demo.Streams) error {
	o, err := parse(args, std.Out)
	if err != nil {
		return err
	}
	t := timeline{demo.NewTimeline(std.Out)}
	c, err := newCluster(t, o)
	if err != nil {
		return fmt.Errorf("-host is %q: %w; accepted: an address of this machine, without a port", o.host, err)
	}
	defer c.close()
	o.listener.Nodes = func(context.Context) ([]string, error) { return c.addresses(), nil }
	o.listener.OnConfig = t.config
	o.listener.Logger = slog.New(t)
	listener, err := configstream.New(o.listener)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	played := make(chan error, 1)
	go func() { played <- c.play(ctx, o.duration) }()
	listener.Run(ctx)
	t.line("the end", "")
	return <-played
}

// timeline is the slog.Handler of the listener, too.
type timeline struct{ *demo.Timeline }

func (t timeline) line(who, what string) { t.Printf("%-8s  %s", who, what) }

// config shows a configuration: the nodes that are up.
func (t timeline) config(u configstream.Update) {
	var config struct{ Nodes []string }
	if err := json.Unmarshal(u.Config, &config); err != nil {
		t.line("config", err.Error())
		return
	}
	t.line("config", fmt.Sprintf("revision %d: nodes %s", u.Revision.Rev, strings.Join(config.Nodes, ", ")))
}

func (t timeline) Enabled(context.Context, slog.Level) bool { return true }
func (t timeline) WithAttrs([]slog.Attr) slog.Handler       { return t }
func (t timeline) WithGroup(string) slog.Handler            { return t }
func (t timeline) Handle(_ context.Context, r slog.Record) error {
	what := r.Message
	r.Attrs(func(a slog.Attr) bool { what += " " + a.String(); return true })
	t.line("listener", what)
	return nil
}
