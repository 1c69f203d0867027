package pay

// A store calls these functions inside the transaction that writes. They decide whether a key or
// a wallet finds room in an organization.

// Join returns the organization of a new claimed key as the key leaves it. keys are the
// organization's keys; known reports whether it exists. ErrKeyLimit.
func (k NewKey) Join(org Organization, known bool, keys []Key) (Organization, error) {
	if !known {
		org = Organization{ID: k.OrganizationID, Plan: PlanFree, Created: k.Created}
	}
	if k.Plan != "" {
		org.Plan = k.Plan
	}
	if KeysUsed(keys) >= k.Plans.Of(org.Plan).Keys {
		return org, ErrKeyLimit
	}
	return org, nil
}

// Apply returns the key as its new organization's. keys are the organization's keys; known
// reports whether it exists. ErrKeyNotFound, ErrKeyLinked, ErrKeyClaimed,
// ErrOrganizationNotFound, ErrKeyLimit.
func (l Link) Apply(k Key, org Organization, known bool, keys []Key) (Key, error) {
	switch {
	case k.Revoked():
		return k, ErrKeyNotFound
	case k.Claimed() && k.OrganizationID == l.OrganizationID:
		return k, ErrKeyLinked
	case k.Claimed():
		return k, ErrKeyClaimed
	case !known:
		return k, ErrOrganizationNotFound
	case KeysUsed(keys) >= l.Plans.Of(org.Plan).Keys:
		return k, ErrKeyLimit
	}
	k.OrganizationID = l.OrganizationID
	k.PolicyRevision++
	return k, nil
}

// Most returns how many live wallets the owner of key k may have: that of the plan for a claimed
// key, if the wallet brings a table of plans, else limit.
func (w NewWallet) Most(k Key, org Organization, limit int) int {
	if w.Plans != nil && k.Claimed() {
		return w.Plans.Of(org.Plan).Wallets
	}
	return limit
}
