package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/respitehttp/respite/examples/internal/demo"
	"github.com/respitehttp/respite/examples/usagesharing"
)

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

func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)

	isShort := flags.Bool("short", false, "a run of about 3 s, with other defaults of -duration, -progress, -fails, -recovers, -rate and -initial-recovery-delay")
	flags.StringVar(&o.evidence, "evidence", "", `read evidence from this file, one JSON object a line; "-": standard input (default: made up)`)
	flags.IntVar(&o.rate, "rate", 500, "requests per second whose evidence is added, at most 1000000")
	flags.DurationVar(&o.duration, "duration", 0, "how long it runs; 0: to the end of -evidence, or 16s")
	flags.DurationVar(&o.progress, "progress", time.Second, "how often a line tells how it goes")
	flags.DurationVar(&o.fails, "fails", 3*time.Second, "when the demo's own service begins to fail")
	flags.DurationVar(&o.recovers, "recovers", 7*time.Second, "when the demo's own service works again")

	c := &o.sender
	flags.StringVar(&c.URL, "url", "", "send to this service (default: one of the demo's own)")
	flags.DurationVar(&c.RequestTimeout, "request-timeout", 0, "how long the answer to a message may take (default 1m0s)")
	flags.IntVar(&c.MinEntriesPerMessage, "min-entries-per-message", 0, "how many entries a message holds at least (default 50)")
	flags.IntVar(&c.MaxQueueSize, "max-queue-size", 0, "how many entries may wait (default the larger of 1000 and 10 messages)")
	flags.Float64Var(&c.SharePercentage, "share-percentage", 0, "the part of the evidence that is shared, 0 to 1, where 0 means all (default 1)")
	flags.DurationVar(&c.RepeatEvidenceInterval, "repeat-evidence-interval", 0, "for how long equal evidence is not shared again (default 20m0s)")
	list(flags, &c.BlockedHTTPHeaders, "blocked-http-headers", "headers that are not shared, with commas (default cookie)")
	list(flags, &c.IncludedQueryStringParameters, "included-query-string-parameters", "query parameters that are shared, with commas")
	flags.BoolVar(&c.ShareAllQueryStringParameters, "share-all-query-string-parameters", false, "share every query parameter")
	flags.BoolVar(&c.ShareAllEvidence, "share-all-evidence", false, "share everything")
	flags.StringVar(&c.Product, "product", "Respite demo", "the product named in messages")
	flags.StringVar(&c.Version, "version", "1", "the version of the product named in messages")
	list(flags, &c.FlowElements, "flow-elements", "the flow elements named in messages, with commas")
	flags.StringVar(&c.ServerIP, "server-ip", "", "the server's address named in messages")
	flags.DurationVar(&c.ShutdownTimeout, "shutdown-timeout", 0, "how long sending may go on at the end (default 5s)")

	b := &c.Breaker
	flags.IntVar(&b.FailuresToEnterRecovery, "failures-to-enter-recovery", 0, "how many failures pause sending (default 10)")
	flags.DurationVar(&b.FailuresWindow, "failures-window", 0, "within what time failures pause sending (default 1m40s)")
	flags.DurationVar(&b.InitialRecoveryDelay, "initial-recovery-delay", 0, "the first pause (default 2s)")
	flags.DurationVar(&b.MaxRecoveryDelay, "max-recovery-delay", 0, "the longest pause (default 5m0s)")
	flags.Float64Var(&b.RecoveryMultiplier, "recovery-multiplier", 0, "how pauses grow (default 2)")
	flags.Float64Var(&b.Jitter, "jitter", 0, "the part of a pause that chance may take away")
	flags.DurationVar(&b.TrialTimeout, "trial-timeout", 0, "how long a trial may take (default 2m0s)")

	if err := demo.Parse(flags, args, help); err != nil {
		return o, err
	}
	if *isShort {
		set := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
		for name, value := range short {
			if !set[name] {
				if err := flags.Set(name, value); err != nil {
					panic(err)
				}
			}
		}
	}
	if o.duration == 0 && o.evidence == "" {
		o.duration = 16 * time.Second
	}
	var faults demo.Faults
	faults.Check(o.rate >= 1 && o.rate <= 1_000_000, "-rate", o.rate, "1 to 1000000")
	faults.Check(o.duration >= 0, "-duration", o.duration, ">= 0")
	faults.Check(o.progress > 0, "-progress", o.progress, "> 0")
	faults.Check(o.fails >= 0, "-fails", o.fails, ">= 0")
	faults.Check(o.recovers >= o.fails, "-recovers", o.recovers, fmt.Sprintf(">= -fails, %v", o.fails))
	_, err := usagesharing.New(o.sender) // for the rest of the options: it starts nothing
	return o, errors.Join(faults.Err(), err)
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
