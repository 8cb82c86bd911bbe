/* Undefines what engine.h was parametrised with, so that it can be included for the next instruction set. */
#undef ISA_NAME
#undef STREAM_LINE
#undef SHUFFLES
#undef WIDEST
#undef VECTORS
#undef FN
#undef PASTE
#undef PASTE2
