package boltstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/pay"
)

// movedSettings names the settings that move in the meta bucket.
func movedSettings() map[string][]byte {
	return map[string][]byte{
		move.SettingBackups: backupsKey, move.SettingDeployments: deploymentsKey, move.SettingDrawn: drawnKey, move.SettingExec: execKey,
		move.SettingGenesis: genesisKey, move.SettingPause: pauseKey, move.SettingRemoved: removedKey, move.SettingRestored: reconcilingKey,
		move.SettingSafeBlocks: safeBlocksKey, move.SettingVault: vaultKey, move.SettingWorld: worldKey,
	}
}

// ownSettings lists the keys of the meta bucket that belong to the file and do not move.
func ownSettings() [][]byte {
	return [][]byte{schemaKey, storeIDKey, resumedKey, epochKey, openedKey, sessionCountKey, moveKey, placeKey}
}

// movedBuckets names the bucket whose rows are the records of a kind.
func movedBuckets() map[move.Kind][]byte {
	return map[move.Kind][]byte{
		move.Setting: metaBucket, move.Organization: orgsBucket, move.Key: keysBucket, move.ReplacedSecret: replacedBucket, move.Account: accountsBucket,
		move.Wallet: walletsBucket, move.Loan: lentWalletsBucket, move.Payment: paymentsBucket, move.RemovedAttempt: attemptsBucket,
		move.Spend: eventsBucket, move.SpendDay: spendDaysBucket, move.WalletDay: walletDaysBucket, move.Counter: countersBucket,
		move.Declined: declinedBucket, move.Audit: auditBucket, move.Notice: noticesBucket, move.NoticeMark: marksBucket,
		move.Delivery: deliveriesBucket, move.Approval: approvalsBucket, move.Session: sessionsBucket,
	}
}

// exportKind visits the records of a kind.
func exportKind(ctx context.Context, tx *bbolt.Tx, kind move.Kind, visit func(move.Record) error) error {
	if kind == move.Setting {
		return exportSettings(tx, visit)
	}
	hashes := map[string]string{}
	if kind == move.Key {
		err := tx.Bucket(keyHashBucket).ForEach(func(hash, id []byte) error {
			hashes[string(id)] = string(hash)
			return nil
		})
		if err != nil {
			return err
		}
	}
	c := tx.Bucket(movedBuckets()[kind]).Cursor()
	rows := 0
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if rows++; rows%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r, err := recordIn(tx, kind, k, v, hashes)
		if err != nil {
			return fmt.Errorf("%q: %w", k, err)
		}
		if r == nil {
			continue
		}
		if err := visit(*r); err != nil {
			return err
		}
	}
	return nil
}

func exportSettings(tx *bbolt.Tx, visit func(move.Record) error) error {
	meta, known := tx.Bucket(metaBucket), movedSettings()
	own := map[string]bool{}
	for _, key := range ownSettings() {
		own[string(key)] = true
	}
	for _, key := range known {
		own[string(key)] = true
	}
	err := meta.ForEach(func(key, _ []byte) error {
		if !own[string(key)] {
			return fmt.Errorf("%q is a setting that this purser does not know", key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range move.Settings() {
		r := move.Record{Kind: move.Setting, A: name, Row: meta.Get(known[name])}
		if len(r.Row) == 0 {
			continue
		}
		if name == move.SettingExec { // an id, which is JSON elsewhere
			if r.Row, err = json.Marshal(string(r.Row)); err != nil {
				return err
			}
		}
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

// recordIn makes the record of a row; nil: it is none.
func recordIn(tx *bbolt.Tx, kind move.Kind, k, v []byte, hashes map[string]string) (*move.Record, error) {
	r := &move.Record{Kind: kind, A: string(k), Row: v}
	var err error
	switch kind { //nolint:exhaustive // settings are elsewhere
	case move.Organization, move.Account, move.Delivery, move.Approval:
		r.Row, err = plainRow(v)
	case move.Key:
		if r.Row, err = plainRow(v); err != nil {
			return nil, err
		}
		r.B, r.More = hashes[r.A], tx.Bucket(keySecretsBucket).Get(k)
		if r.B == "" {
			return nil, errors.New("no hash finds the key")
		}
		r.N, err = revisionIn(tx, r.A)
	case move.ReplacedSecret:
		r.B, r.Row = string(v), nil
	case move.Wallet:
		r.More = tx.Bucket(walletSecretsBucket).Get(k)
		r.Row, err = plainRow(v)
	case move.Loan:
		if err = split(r, k); err == nil {
			r.N, r.Row = decodeNumber(v), nil
		}
	case move.Payment:
		r.More = tx.Bucket(payloadsBucket).Get(k)
	case move.RemovedAttempt:
		return removedAttemptIn(k)
	case move.Spend:
		err = split(r, k)
	case move.SpendDay, move.WalletDay:
		r.A, r.N, err = splitDay(k)
	case move.Declined:
		var list []pay.Declined
		if list, err = decodeDeclined(k, v); err != nil {
			return nil, err
		}
		if r.A, r.N, err = splitDay(k); err == nil {
			r.Row, err = move.DeclinedRow(list)
		}
	case move.Audit, move.Notice:
		r.A, r.N = "", decodeNumber(k)
		r.Row, err = plainRow(v)
	case move.Session:
		var row sessionRow
		err = decodeRow(v, &row)
		r.N, r.Row = decodeNumber([]byte(encodeTime(row.Expires))), row.Data
	case move.NoticeMark:
		if len(v) != 16 {
			return nil, errors.New("mark of another length")
		}
		r.B, r.N, r.Row = string(v[:8]), decodeNumber(v[8:]), nil
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func split(r *move.Record, key []byte) error {
	a, b, ok := bytes.Cut(key, []byte{0})
	if !ok {
		return errors.New("a key of one part")
	}
	r.A, r.B = string(a), string(b)
	return nil
}

func splitDay(key []byte) (id string, day uint64, err error) {
	if len(key) < 9 || key[len(key)-9] != 0 {
		return "", 0, errors.New("a key without a day")
	}
	return string(key[:len(key)-9]), decodeNumber(key[len(key)-8:]), nil
}

// removedAttemptIn reads an entry of keepAttempt; nil: it is the entry of a payment.
func removedAttemptIn(k []byte) (*move.Record, error) {
	const tail = 1 + 32 + 1 + 8 + 1 // hash of the idempotency key and attempt, behind the key's id
	if !isKeptAttempt(k) {
		return nil, nil
	}
	at := len(k) - tail
	if at < 0 {
		return nil, errors.New("an attempt of another length")
	}
	return &move.Record{Kind: move.RemovedAttempt, A: string(k[:at]), B: string(k[at+1 : at+33]), N: decodeNumber(k[at+34:])}, nil
}

// plainRow returns the JSON of encodeRow.
func plainRow(encoded []byte) ([]byte, error) {
	if len(encoded) == 0 || encoded[0] != rowVersion {
		return nil, errors.New("row of an unknown encoding")
	}
	return encoded[1:], nil
}
