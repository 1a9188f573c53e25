package configstream

import "io"

// Lines reads all lines of r, up to the error that ends it.
func Lines(r io.Reader, most int) (lines []string, err error) {
	for l := newLineReader(r, most); ; {
		line, err := l.next()
		if err != nil {
			return lines, err
		}
		lines = append(lines, string(line))
	}
}

// Resolve returns the URL, the name for the log and the host of a node.
func Resolve(address, path string) (url, name, host string, err error) {
	p, err := parsePath(path)
	if err != nil {
		return "", "", "", err
	}
	n, err := parseNode(address, p)
	return n.url, n.name, n.host, err
}

// Expand returns a document with $HOST replaced as for the node at an address.
func Expand(address, document string) (string, error) {
	p, _ := parsePath("")
	n, err := parseNode(address, p)
	return string(n.expand([]byte(document))), err
}
