// Package signer implements pay.Wallets. A Wallets provider makes wallets and signs with them.
//
// [Local] makes keys in this process; the store keeps them, encrypted. [None] makes wallets that
// cannot pay. Package pay decides which wallet signs which message: this package checks neither
// amounts nor payees.
package signer
