// Package demo holds what the commands that show the systems have in common: how they
// are started and interrupted, and what they say of a bad flag.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// Streams are the standard streams of a process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs a demo until it ends by itself, or by an interrupt, which ends the context.
// It is all that a main function does.
func Main(run func(ctx context.Context, args []string, std Streams) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	err := run(ctx, os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr})
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// Parse sets the flags as args say. If that is to print the help, it does so, and
// returns flag.ErrHelp. Anything but flags is an error.
func Parse(flags *flag.FlagSet, args []string, help io.Writer) error {
	flags.SetOutput(io.Discard) // else it writes errors there, and not only returns them
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(help)
		flags.Usage()
		return err
	case err != nil:
		return fmt.Errorf("%w; -h lists the flags", err)
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; -h lists the flags", flags.Arg(0))
	}
	return nil
}

// Faults are what is wrong with flags.
type Faults []error

// Check notes a fault unless the value of the flag is ok.
func (f *Faults) Check(ok bool, name string, value any, accepted string) {
	if text, isText := value.(string); isText {
		value = strconv.Quote(text)
	}
	if !ok {
		*f = append(*f, fmt.Errorf("%s is %v; accepted: %s", name, value, accepted))
	}
}

// Err returns all faults as one error.
func (f Faults) Err() error { return errors.Join(f...) }
