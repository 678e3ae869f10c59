//go:build race

package tables_test

// The reference's service controller reads what its workers write without a lock: serviceCache.allServices of k8s.io/cloud-provider v0.37.2.
func init() { raceDetector = true }
