package configstream

import (
	"cmp"
	"encoding/json"
	"strconv"
)

// Revision orders configurations: by Epoch, and within one by Rev.
type Revision struct {
	Epoch int64 // revEpoch at the top level of the document, or 0
	Rev   int64 // rev
	Valid bool  // whether the document has an integer rev; else Epoch and Rev are 0
}

// supersedes reports whether a configuration of revision r takes the place of one of
// revision held. Without a Rev on both sides there is no order: it does.
func (r Revision) supersedes(held Revision) bool {
	return !r.Valid || !held.Valid || cmp.Or(cmp.Compare(r.Epoch, held.Epoch), cmp.Compare(r.Rev, held.Rev)) > 0
}

// revisionOf reads the revision of a document. A map takes keys to the letter, where
// the fields of a struct would take REV for rev.
func revisionOf(document []byte) Revision {
	var top map[string]json.RawMessage
	if json.Unmarshal(document, &top) != nil {
		return Revision{} // not an object
	}
	rev, err := strconv.ParseInt(string(top["rev"]), 10, 64)
	if err != nil {
		return Revision{}
	}
	epoch, _ := strconv.ParseInt(string(top["revEpoch"]), 10, 64)
	return Revision{Epoch: epoch, Rev: rev, Valid: true}
}
