package boltstore

import (
	"slices"
	"testing"

	"github.com/purserpay/purser/internal/move"
)

// Each bucket moves, or is made again from what moves.
func TestEveryBucketMoves(t *testing.T) {
	t.Parallel()
	known := [][]byte{
		// with the rows of another bucket
		keyHashBucket, keySecretsBucket, revisionsBucket, walletSecretsBucket, payloadsBucket,
		// indexes
		orgKeysBucket, identitiesBucket, sessionsExpiryBucket, liveWalletsBucket, addressesBucket, walletKeysBucket,
		keyPaymentsBucket, labelsBucket, labelledBucket, awaitedBucket, hostsBucket, leasesBucket, dueBucket, livingBucket, transactionsBucket,
		noncesBucket, labelCountsBucket, taskEventsBucket, hostEventsBucket, auditOfBucket, marksExpiryBucket,
		keyApprovalsBucket, pendingBucket, purchasesBucket,
	}
	for kind := range move.Kinds {
		bucket := movedBuckets()[kind]
		if bucket == nil {
			t.Errorf("no bucket has %s", kind)
		}
		known = append(known, bucket)
	}
	for _, name := range allBuckets {
		if !slices.ContainsFunc(known, func(k []byte) bool { return string(k) == string(name) }) {
			t.Errorf("bucket %s is not moved: give it a kind in internal/move, or list it above", name)
		}
	}
	for _, name := range move.Settings() {
		if movedSettings()[name] == nil {
			t.Errorf("setting %s has no name in the file", name)
		}
	}
}
