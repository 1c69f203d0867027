package simulation

// chainMutants lists one for each protection of package chain that the world has a way to need.
func chainMutants() []mutant {
	return []mutant{
		{"transfers of nothing are no candidates", "chain/permit2.go", "if moved.IsZero() != empty || s.misses(moved)", "if s.misses(moved)"},
		{"the block that spends a nonce is found first", "chain/permit2.go", "	if known {\n\t\tfound, err = s.findIn(ctx, block)", "	if _ = block; known && false {\n\t\tfound, err = s.findIn(ctx, block)"},
		{"transactions are remembered", "chain/proxycall.go", "	return m.calls.Get(key)", "	return proxyCall{}, false"},
		{"receipts tell what the RPC does not list", "chain/permit2.go", "	if err != nil && mayBeTooLarge(err) && ctx.Err() == nil {\n\t\treturn s.settledIn(ctx, b, err)\n\t}\n\treturn logs, err", "	return logs, err"},
		{"the transaction has the authorization", "chain/permit2.go", "case !slices.ContainsFunc(uses, moves), calls[i].direct && !ours:", "case false:"},
		{"logs are of the token", "chain/permit2.go", `"address": s.query.Asset.Address, "topics"`, `"topics"`},
		{"a state is that of the safe block", "chain/rpc.go", "	return struct {\n\t\tHash      string", "	if true {\n\t\treturn atLatest\n\t}\n\treturn struct {\n\t\tHash      string"},
		{"the blocks behind an answer are on the chain that is identified", "chain/trace.go", "q.Asset, atBlock(basis[0]), basis...)", "q.Asset, atLatest)"},
		{"a use in a block that may go is not safe", "chain/trace.go", "t.SafeLogs = found.log.BlockNumber <= safe.Number", "t.SafeLogs = true"},
		{"the safe block is asked for", "chain/trace.go", "b, err := c.block(ctx, n.SafeTag)", "b, err := c.block(ctx, atLatest)"},
		{"a settlement of nothing is a cancellation", "pay/safeblock.go", "t.Used && t.Moved.IsZero()", "false"},
	}
}
