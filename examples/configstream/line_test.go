package configstream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readLines reads all lines of r, up to the error that ends it.
func readLines(r io.Reader, most int) (lines []string, err error) {
	for l := newLineReader(r, most); ; {
		line, err := l.next()
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

// S4, S8: lines end with their newline; what has none is none; a longer one is an error.
func TestS8Lines(t *testing.T) {
	const limit = "a line is longer than the limit of 5 bytes"
	for _, test := range []struct {
		in   string
		want []string
		err  string
	}{
		{"", nil, "EOF"},
		{"a\n", []string{"a\n"}, "EOF"},
		{"\n\n", []string{"\n", "\n"}, "EOF"},
		{"a\nb", []string{"a\n"}, "unexpected EOF"},
		{"1234\n", []string{"1234\n"}, "EOF"},
		{"12345", nil, "unexpected EOF"},
		{"12345\n", nil, limit},
		{"a\n123456", []string{"a\n"}, limit},
		{"a\r\n\x00\n", []string{"a\r\n", "\x00\n"}, "EOF"},
	} {
		lines, err := readLines(strings.NewReader(test.in), 5)
		assert.Equal(t, test.want, lines, "%q", test.in)
		assert.EqualError(t, err, test.err, "%q", test.in)
	}
}

// The error that breaks a stream is the one that is returned, after the lines before it.
func TestLinesKeepTheError(t *testing.T) {
	broken := errors.New("broken")
	lines, err := readLines(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 5)
	assert.Equal(t, []string{"a\n"}, lines)
	assert.Equal(t, broken, err)
}

// However a stream is cut into pieces, its lines are those of the whole.
func FuzzLines(f *testing.F) {
	f.Add("a\n", "\nbc", 1, 3, []byte{1, 2})
	f.Add("x", "\n", 5000, 6000, []byte{})
	f.Add("x", "\n\n", 4095, 4096, []byte{0, 255})
	f.Fuzz(func(t *testing.T, start, end string, times, limit int, cuts []byte) {
		if limit <= 0 || times < 0 || times > 10_000 || len(start)+len(end)+len(cuts) > 50 {
			return
		}
		stream := strings.Repeat(start, times) + end
		var want []string
		wantErr := "EOF"
		for line := range strings.SplitAfterSeq(stream, "\n") {
			if len(line) > limit {
				wantErr = "longer than the limit"
				break
			}
			if !strings.HasSuffix(line, "\n") {
				if line != "" {
					wantErr = "unexpected EOF"
				}
				break
			}
			want = append(want, line)
		}
		lines, err := readLines(&pieces{stream, cuts}, limit)
		require.Equal(t, want, lines)
		require.ErrorContains(t, err, wantErr)
	})
}

// pieces is a reader that gives as many bytes at a time as its cuts say.
type pieces struct {
	rest string
	cuts []byte
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	n := min(len(b), len(p.rest))
	if len(p.cuts) > 0 {
		n = min(n, int(p.cuts[0]))
		p.cuts = p.cuts[1:]
	}
	copy(b, p.rest[:n])
	p.rest = p.rest[n:]
	return n, nil
}
