package configstream

import (
	"bufio"
	"fmt"
	"io"
)

// lineReader reads lines of up to a number of bytes. A bufio.Scanner would take a last
// line without its newline for a whole one.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, most int) *lineReader { return &lineReader{bufio.NewReader(r), most} }

// next returns the next line, with its newline. The end of what is read is io.EOF, or
// io.ErrUnexpectedEOF in the middle of a line.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		switch line = append(line, part...); {
		case len(line) > l.max:
			return nil, fmt.Errorf("a line is longer than the limit of %d bytes", l.max)
		case err == nil:
			return line, nil
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}
