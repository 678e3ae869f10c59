package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Save writes figures to a file, whole or not at all.
func Save(name string, measured any) error {
	data, err := json.MarshalIndent(measured, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("save the figures: %w", err)
	}
	return os.Rename(name+".new", name)
}
