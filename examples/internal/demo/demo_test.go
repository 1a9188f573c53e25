package demo_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/respitehttp/respite/examples/internal/demo"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args []string
		err  string
		help string
		n    int
	}{
		{args: nil, n: 1},
		{args: []string{"-n", "2"}, n: 2},
		{args: []string{"-h"}, err: "flag: help requested", help: "Usage of demo:\n  -n int\n    \tthe number (default 1)\n", n: 1},
		{args: []string{"-what"}, err: "flag provided but not defined: -what; -h lists the flags", n: 1},
		{args: []string{"-n", "x"}, err: `invalid value "x" for flag -n: parse error; -h lists the flags`, n: 0},
		{args: []string{"-n", "2", "more"}, err: `unexpected argument "more"; -h lists the flags`, n: 2},
	} {
		var help bytes.Buffer
		flags := flag.NewFlagSet("demo", flag.ContinueOnError)
		n := flags.Int("n", 1, "the number")
		err := demo.Parse(flags, c.args, &help)
		if c.err == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, c.err)
		}
		assert.Equal(t, c.help, help.String())
		assert.Equal(t, c.n, *n)
	}
}

func TestFaults(t *testing.T) {
	var faults demo.Faults
	faults.Check(true, "-a", 1, "1")
	assert.NoError(t, faults.Err())
	faults.Check(false, "-b", 2, "3")
	faults.Check(false, "-c", "x", "y or z")
	assert.EqualError(t, faults.Err(), "-b is 2; accepted: 3\n-c is \"x\"; accepted: y or z")
}

// The timeline counts from its start, and its lines are whole.
func TestTimeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		timeline := demo.NewTimeline(&out)
		timeline.Printf("%-10s", "begins")
		time.Sleep(time.Second)
		assert.True(t, timeline.SleepUntil(t.Context(), 1500*time.Millisecond))
		assert.True(t, timeline.SleepUntil(t.Context(), time.Second), "which is past")
		timeline.Printf("%s and %d", "goes on", 2)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		assert.False(t, timeline.SleepUntil(ctx, time.Hour))
		timeline.Printf("ends at %s", timeline.At(time.Now()))
		assert.Equal(t, "  0.00s  begins\n  1.50s  goes on and 2\n 11.50s  ends at 11.50s\n", out.String())
	})
}

// roleVariable tells a process that it is a demo, and what it does.
const roleVariable = "RESPITE_TEST_OF_DEMO_MAIN"

// Main is the whole of a process, so it is run in one: this test binary, told so by its
// environment.
func TestMain(m *testing.M) {
	what, ok := os.LookupEnv(roleVariable)
	if !ok {
		os.Exit(m.Run())
	}
	demo.Main(func(ctx context.Context, args []string, std demo.Streams) error {
		fmt.Fprintln(std.Out, "runs")
		switch what {
		case "ends":
		case "fails":
			return errors.New("no luck")
		case "helps":
			return flag.ErrHelp
		case "interrupted":
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			if err := self.Signal(os.Interrupt); err != nil {
				return err
			}
			<-ctx.Done()
			fmt.Fprintln(std.Out, "ends")
		case "interrupted twice":
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			for { // until it is no more
				if err := self.Signal(os.Interrupt); err != nil {
					return err
				}
				<-ctx.Done()
			}
		default:
			return fmt.Errorf("unknown role %q", what)
		}
		return nil
	})
}

func TestMainOfAProcess(t *testing.T) {
	for what, want := range map[string]struct {
		out, log string
		code     int
	}{
		"ends":        {"runs\n", "", 0},
		"fails":       {"runs\n", "demo: no luck\n", 1},
		"helps":       {"runs\n", "", 0},
		"interrupted": {"runs\nends\n", "", 0},

		"interrupted twice": {"runs\n", "", -1}, // it did not exit, but was killed
	} {
		var out, log bytes.Buffer
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), roleVariable+"="+what)
		process.Stdout, process.Stderr = &out, &log
		err := process.Run()
		if want.code == 0 {
			require.NoError(t, err, what)
		}
		assert.Equal(t, want.code, process.ProcessState.ExitCode(), what)
		assert.Equal(t, want.out, out.String(), what)
		assert.Equal(t, want.log, log.String(), what)
	}
}
