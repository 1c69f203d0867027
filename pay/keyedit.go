package pay

import "github.com/purserpay/purser/policy"

// KeyEdit changes a key. A store applies it inside the transaction that writes; changed is false if there is
// nothing to write.
type KeyEdit func(was Key) (k Key, changed bool, err error)

// EditPolicy replaces a key's policy, nil removing it.
func EditPolicy(pol *policy.Policy) KeyEdit {
	return func(k Key) (Key, bool, error) {
		k.Policy = pol
		k.PolicyRevision++
		return k, true, nil
	}
}

// EditPolicyAt is EditPolicy for a key that has a PolicyRevision: ErrPolicyChanged if it has another one.
func EditPolicyAt(revision uint64, pol *policy.Policy) KeyEdit {
	return func(k Key) (Key, bool, error) {
		if k.PolicyRevision != revision {
			return k, false, ErrPolicyChanged
		}
		return EditPolicy(pol)(k)
	}
}

// EditAdoption makes a key the operator's.
func EditAdoption() KeyEdit {
	return func(k Key) (Key, bool, error) {
		if k.Operator {
			return k, false, nil
		}
		k.Operator = true
		k.PolicyRevision++
		return k, true, nil
	}
}
