// Command demo shows the whole story of package usagesharing on real connections: a
// service that fails for a while, the pause, the queue that fills, the trial, and how
// all that was queued is sent then.
//
//	go run ./examples/usagesharing/demo          # about 16 s
//	go run ./examples/usagesharing/demo -short   # about 3 s
//
// With -url it sends to a service of yours, and with -evidence what you give it: a
// file of one JSON object a line, such as {"header.user-agent": "Mozilla/5.0"}, or
// "-" for the standard input. An interrupt (Ctrl-C) ends it, with the summary.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/respitehttp/respite/examples/usagesharing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends it at once
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run is the demo. It writes to stdout how it goes, and to stderr what the sender
// logs.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	next := madeUp()
	if o.evidence == "-" {
		next = jsonLines(stdin)
	} else if o.evidence != "" {
		file, err := os.Open(o.evidence)
		if err != nil {
			return err
		}
		defer file.Close()
		next = jsonLines(file)
	}
	var own *service
	if o.sender.URL == "" {
		if own, err = startService(o.fails, o.recovers); err != nil {
			return err
		}
		defer own.http.Close()
		o.sender.URL = own.url
	}
	o.sender.Logger = slog.New(slog.NewTextHandler(stderr, nil))
	sender, err := usagesharing.New(o.sender)
	if err != nil {
		return err
	}
	if own != nil {
		fmt.Fprintf(stdout, "the demo's own service, %s, fails from %v to %v\n", own.url, o.fails, o.recovers)
	}

	ctx, end := context.WithCancelCause(ctx)
	if o.duration > 0 {
		defer time.AfterFunc(o.duration, func() { end(errors.New("the time is over")) }).Stop()
	}
	ended := make(chan struct{})
	go func() {
		sender.Run(ctx)
		close(ended)
	}()
	fed := make(chan error, 1)
	go func() {
		err := feed(ctx, sender, next, o.rate)
		fed <- err
		end(errors.New("no more evidence"))
	}()
	watch(ctx, sender, stdout, o.progress)
	fmt.Fprintf(stdout, "ending: %v\n", context.Cause(ctx))
	<-ended
	err = summarize(stdout, sender.Stats(), own)
	select {
	case feedErr := <-fed:
		return errors.Join(feedErr, err)
	default: // it waits for standard input
		return err
	}
}

// feed adds the evidence of so many requests per second, until there is no more or
// ctx ends.
func feed(ctx context.Context, sender *usagesharing.Sender, next source, rate int) error {
	due := time.Now()
	for {
		evidence, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-time.After(time.Until(due)):
			sender.Add(evidence)
		case <-ctx.Done():
			return nil
		}
		due = due.Add(time.Second / time.Duration(rate))
		if late := time.Since(due); late > 100*time.Millisecond {
			due = due.Add(late) // it had to wait for evidence: no rush now
		}
	}
}

// watch tells how it goes until ctx ends.
func watch(ctx context.Context, sender *usagesharing.Sender, out io.Writer, every time.Duration) {
	began := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s := sender.Stats()
			fmt.Fprintf(out, "%7.2fs  %-9v  queued %5d   delivered %6d   dropped: failed %5d, queue full %5d\n",
				time.Since(began).Seconds(), s.State, s.Queued, s.Delivered, s.DroppedFailed, s.DroppedFull)
		}
	}
}

// summarize writes what became of everything, and returns an error if the numbers do
// not add up.
func summarize(out io.Writer, s usagesharing.Stats, own *service) error {
	added := s.Accepted + s.NotShared + s.DroppedFull + s.AfterEnd
	fmt.Fprintf(out, "\nadded     %7d = accepted %d + not shared %d + dropped, queue full %d + after the end %d\n", added, s.Accepted, s.NotShared, s.DroppedFull, s.AfterEnd)
	fmt.Fprintf(out, "accepted  %7d = delivered %d + dropped by failed sends %d + dropped at shutdown %d\n", s.Accepted, s.Delivered, s.DroppedFailed, s.DroppedShutdown)
	fmt.Fprintf(out, "messages  %7d, of which %d failed\n", s.Messages, s.FailedMessages)
	if s.Accepted != s.Delivered+s.DroppedFailed+s.DroppedShutdown {
		return errors.New("the numbers do not add up")
	}
	if own == nil {
		return nil
	}
	entries, messages, refused := own.counts()
	fmt.Fprintf(out, "received  %7d entries in %d messages, and refused %d messages\n", entries, messages, refused)
	if entries != s.Delivered {
		return errors.New("the service has another number of entries")
	}
	return nil
}

// options are what the flags say.
type options struct {
	sender   usagesharing.Config
	evidence string
	rate     int
	duration time.Duration
	progress time.Duration
	fails    time.Duration // the demo's own service does from then
	recovers time.Duration // until then
}

// short is what -short sets where no other flag does.
var short = map[string]string{
	"duration": "2500ms", "progress": "250ms", "fails": "300ms", "recovers": "1s", "rate": "3000", "initial-recovery-delay": "400ms",
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(output)

	isShort := flags.Bool("short", false, "a run of about 3 s")
	flags.StringVar(&o.evidence, "evidence", "", `read evidence from this file, one JSON object a line; "-": standard input (default: made up)`)
	flags.IntVar(&o.rate, "rate", 500, "requests per second whose evidence is added, at most 1000000")
	flags.DurationVar(&o.duration, "duration", 0, "how long it runs; 0: to the end of -evidence, or 16s")
	flags.DurationVar(&o.progress, "progress", time.Second, "how often a line tells how it goes")
	flags.DurationVar(&o.fails, "fails", 3*time.Second, "when the demo's own service begins to fail")
	flags.DurationVar(&o.recovers, "recovers", 7*time.Second, "when it works again")

	c := &o.sender
	flags.StringVar(&c.URL, "url", "", "send to this service (default: one of the demo's own)")
	flags.DurationVar(&c.RequestTimeout, "request-timeout", 0, "how long the answer to a message may take (default 1m0s)")
	flags.IntVar(&c.MinEntriesPerMessage, "min-entries-per-message", 0, "how many entries a message holds at least (default 50)")
	flags.IntVar(&c.MaxQueueSize, "max-queue-size", 0, "how many entries may wait (default the larger of 1000 and 10 messages)")
	flags.Float64Var(&c.SharePercentage, "share-percentage", 0, "the part of the evidence that is shared, up to 1 (default 1)")
	flags.DurationVar(&c.RepeatEvidenceInterval, "repeat-evidence-interval", 0, "for how long equal evidence is not shared again (default 20m0s)")
	list(flags, &c.BlockedHTTPHeaders, "blocked-http-headers", "headers that are not shared, with commas (default cookie)")
	list(flags, &c.IncludedQueryStringParameters, "included-query-string-parameters", "query parameters that are shared, with commas")
	flags.BoolVar(&c.ShareAllQueryStringParameters, "share-all-query-string-parameters", false, "share every query parameter")
	flags.BoolVar(&c.ShareAllEvidence, "share-all-evidence", false, "share everything")
	flags.StringVar(&c.Product, "product", "Respite demo", "the product named in messages")
	flags.StringVar(&c.Version, "version", "1", "its version")
	list(flags, &c.FlowElements, "flow-elements", "the flow elements named in messages, with commas")
	flags.StringVar(&c.ServerIP, "server-ip", "", "the server's address named in messages")
	flags.DurationVar(&c.ShutdownTimeout, "shutdown-timeout", 0, "how long sending may go on at the end (default 5s)")

	b := &c.Breaker
	flags.IntVar(&b.FailuresToEnterRecovery, "failures-to-enter-recovery", 0, "how many failures pause sending (default 10)")
	flags.DurationVar(&b.FailuresWindow, "failures-window", 0, "within what time (default 1m40s)")
	flags.DurationVar(&b.InitialRecoveryDelay, "initial-recovery-delay", 0, "the first pause (default 2s)")
	flags.DurationVar(&b.MaxRecoveryDelay, "max-recovery-delay", 0, "the longest pause (default 5m0s)")
	flags.Float64Var(&b.RecoveryMultiplier, "recovery-multiplier", 0, "how pauses grow (default 2)")
	flags.Float64Var(&b.Jitter, "jitter", 0, "the part of a pause that chance may take away")
	flags.DurationVar(&b.TrialTimeout, "trial-timeout", 0, "how long a trial may take (default 2m0s)")

	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *isShort {
		set := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
		for name, value := range short {
			if !set[name] {
				flags.Set(name, value)
			}
		}
	}
	if o.rate < 1 || o.rate > 1_000_000 {
		return o, fmt.Errorf("-rate is %d; accepted: 1 to 1000000", o.rate)
	}
	if o.progress <= 0 {
		return o, fmt.Errorf("-progress is %v; accepted: > 0", o.progress)
	}
	if o.duration == 0 && o.evidence == "" {
		o.duration = 16 * time.Second
	}
	return o, nil
}

// list defines a flag that is a list.
func list(flags *flag.FlagSet, values *[]string, name, usage string) {
	flags.Func(name, usage, func(s string) error {
		*values = []string{}
		if s != "" {
			*values = strings.Split(s, ",")
		}
		return nil
	})
}

// source gives the evidence of one request after the other, and io.EOF at the end.
type source func() (usagesharing.Evidence, error)

// madeUp gives evidence without end. Every tenth request is like the one before it,
// and so is not shared.
func madeUp() source {
	agents := []string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/127.0.0.0 Mobile Safari/537.36",
		"curl/8.9.1",
	}
	n := 0
	return func() (usagesharing.Evidence, error) {
		n++
		visitor := n
		if n%10 == 0 {
			visitor--
		}
		return usagesharing.Evidence{
			"header.user-agent": agents[visitor%len(agents)],
			"header.accept":     "text/html",
			"header.cookie":     "login=secret",
			"query.session-id":  fmt.Sprint(visitor),
			"query.sequence":    "1",
			"server.client-ip":  fmt.Sprintf("2001:db8::%x:%x", visitor>>16, visitor&0xffff),
		}, nil
	}
}

// jsonLines reads evidence from lines. Empty ones are left out.
func jsonLines(r io.Reader) source {
	lines := bufio.NewReader(r)
	number := 0
	return func() (usagesharing.Evidence, error) {
		for {
			line, err := lines.ReadBytes('\n')
			number++
			if line = bytes.TrimSpace(line); len(line) > 0 {
				var evidence usagesharing.Evidence
				err := json.Unmarshal(line, &evidence)
				if err == nil && evidence == nil {
					err = errors.New("it is null")
				}
				if err != nil {
					return nil, fmt.Errorf("line %d of the evidence is no JSON object of strings: %w", number, err)
				}
				return evidence, nil
			}
			if err != nil {
				return nil, err
			}
		}
	}
}

// service is the demo's own receiver of messages.
type service struct {
	url             string
	http            http.Server
	fails, recovers time.Time

	mu                         sync.Mutex // guards the rest
	entries, messages, refused uint64
}

func startService(fails, recovers time.Duration) (*service, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s := &service{url: "http://" + listener.Addr().String(), fails: now.Add(fails), recovers: now.Add(recovers)}
	s.http.Handler = s
	go s.http.Serve(listener)
	return s, nil
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entries, err := count(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.After(s.fails) && now.Before(s.recovers) {
		s.refused++
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	s.messages++
	s.entries += entries
}

func (s *service) counts() (entries, messages, refused uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries, s.messages, s.refused
}

// count returns how many entries a message has.
func count(message io.Reader) (uint64, error) {
	document, err := gzip.NewReader(message)
	if err != nil {
		return 0, err
	}
	var devices struct {
		Device []struct{} `xml:"Device"`
	}
	err = xml.NewDecoder(document).Decode(&devices)
	return uint64(len(devices.Device)), err
}
