// Package signer holds wallet providers: implementations of pay.Wallets.
//
// [Local] makes keys here and leaves keeping them, encrypted, to the store. [None] makes wallets that cannot pay.
// Which wallet signs what is decided in package pay; nothing here looks at amounts or payees.
package signer
