package cloudsim

import (
	"encoding/json"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// schemaVersion is the version of what the state file holds. A file of another version is refused.
const schemaVersion = 1

// The buckets of the state file. Each maps a key to a record in JSON.
const (
	bucketMeta          = "meta"
	bucketZones         = "zones"
	bucketMachineTypes  = "machinetypes"
	bucketInstances     = "instances"
	bucketLoadBalancers = "loadbalancers"
	bucketRoutes        = "routes"
)

// meta is the one record of bucketMeta, under the key "meta".
type meta struct {
	SchemaVersion int `json:"schemaVersion"`
	// LastID is the highest number that was given to a resource. It only grows, so no ID is given twice.
	LastID int64 `json:"lastID"`
	// Revision counts the changes of instances. It only grows.
	Revision int64 `json:"revision,omitempty"`
	// LastAddress is the number of the load balancer address that was given last.
	LastAddress int64 `json:"lastAddress"`
}

// change is one record to write.
type change struct {
	bucket, key string
	// record is nil for a removal.
	record any
}

// store is the state file.
type store struct {
	db *bolt.DB
}

func openStore(path string) (*store, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("state file %s: another process has it open", path)
	}
	if err != nil {
		return nil, fmt.Errorf("state file %s: %w", path, err)
	}
	return &store{db}, nil
}

func (s *store) close() error { return s.db.Close() }

// commit writes all changes in one transaction. When it returns nil they are on the disk.
func (s *store) commit(changes ...change) error {
	err := s.db.Update(func(tx *bolt.Tx) error {
		for _, c := range changes {
			bucket, err := tx.CreateBucketIfNotExists([]byte(c.bucket))
			if err != nil {
				return err
			}
			if c.record == nil {
				if err := bucket.Delete([]byte(c.key)); err != nil {
					return err
				}
				continue
			}
			data, err := json.Marshal(c.record)
			if err != nil {
				return err
			}
			if err := bucket.Put([]byte(c.key), data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}

// load reads all records of a bucket.
func load[T any](s *store, bucket string) (map[string]T, error) {
	records := map[string]T{}
	err := s.db.View(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		if b == nil {
			return nil
		}
		return b.ForEach(func(key, data []byte) error {
			var record T
			if err := json.Unmarshal(data, &record); err != nil {
				return fmt.Errorf("%s %s: %w", bucket, key, err)
			}
			records[string(key)] = record
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("reading the state file: %w", err)
	}
	return records, nil
}
