// Command demo shows the whole story of package usagesharing on real connections: a
// service that fails for a while, the pause, the queue that fills, the trial, and how
// the queue is drained then.
//
//	go run ./examples/usagesharing/demo          # about 16 s
//	go run ./examples/usagesharing/demo -short   # about 3 s
//
// With -url it sends to a service of yours, and with -evidence what you give it: a
// file of one JSON object a line, such as {"header.user-agent": "Mozilla/5.0"}, or
// "-" for the standard input. An interrupt (Ctrl-C) ends it, with the summary.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/respitehttp/respite/examples/internal/demo"
	"github.com/respitehttp/respite/examples/usagesharing"
)

func main() { demo.Main(run) }

// run is the demo. It writes to the standard output how it goes, and to the standard
// error what the sender logs.
func run(ctx context.Context, args []string, std demo.Streams) error {
	o, err := parse(args, std.Out)
	if err != nil {
		return err
	}
	next := madeUp()
	if o.evidence == "-" {
		next = jsonLines(std.In)
	} else if o.evidence != "" {
		file, err := os.Open(o.evidence)
		if err != nil {
			return fmt.Errorf("-evidence: %w", err)
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
	began := time.Now()
	o.sender.Logger = slog.New(slog.NewTextHandler(std.Err, &slog.HandlerOptions{ReplaceAttr: sinceStart(began)}))
	sender, err := usagesharing.New(o.sender)
	if err != nil {
		return err
	}
	if o.evidence == "" {
		fmt.Fprintln(std.Out, "the evidence is made up; every tenth request repeats the one before, and is not shared")
	}
	if own != nil {
		fmt.Fprintf(std.Out, "the demo's own service, %s, fails from %v to %v\n", own.url, o.fails, o.recovers)
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
		end(cmp.Or(err, errors.New("no more evidence")))
	}()
	watch(ctx, sender, std.Out, began, o.progress)
	fmt.Fprintf(std.Out, "ending: %v\n", context.Cause(ctx))
	<-ended
	err = summarize(std.Out, sender.Stats(), own)
	select {
	case feedErr := <-fed:
		return errors.Join(feedErr, err)
	default: // it waits for standard input
		return err
	}
}

// sinceStart makes the time of a log record that of the progress lines.
func sinceStart(began time.Time) func([]string, slog.Attr) slog.Attr {
	return func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			a.Value = slog.StringValue(fmt.Sprintf("%.2fs", a.Value.Time().Sub(began).Seconds()))
		}
		return a
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
func watch(ctx context.Context, sender *usagesharing.Sender, out io.Writer, began time.Time, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if ctx.Err() != nil {
				return
			}
			s := sender.Stats()
			fmt.Fprintf(out, "%7.2fs  %-9v  queued %5d   in flight %4d   delivered %6d   dropped: failed %5d, queue full %5d\n",
				time.Since(began).Seconds(), s.State, s.Queued, s.InFlight, s.Delivered, s.DroppedFailed, s.DroppedFull)
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
