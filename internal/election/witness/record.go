package witness

import (
	"encoding/binary"
	"fmt"
	"os"
)

// record is what a manager leaves for its witness, in memory that both share: how many of its writes the cloud has not answered.
type record struct{ file *os.File }

// set records the count. What is recorded before a process dies is there afterwards.
func (r record) set(writes int) error {
	if _, err := r.file.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(writes)), 0); err != nil {
		return fmt.Errorf("record the writes under way: %w", err)
	}
	return nil
}

// writes returns the count.
func (r record) writes() (uint64, error) {
	recorded := make([]byte, 8)
	if _, err := r.file.ReadAt(recorded, 0); err != nil {
		return 0, fmt.Errorf("read the writes under way: %w", err)
	}
	return binary.LittleEndian.Uint64(recorded), nil
}
