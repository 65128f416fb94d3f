# The load linked at four places: the same code, 16 bytes further on each time. Where code lies changes how fast it runs by some
# percent, which is as much as few probes cost.
PLACES := 16 32 48 64
all: $(PLACES:%=sqload.%)
$(PLACES:%=sqload.%): sqload.%: place.%.s sqlite3.o sqload.o
	$(CC) -O2 $^ -lm -ldl -lpthread -o $@
$(PLACES:%=place.%.s): place.%.s:
	printf '.text\n.skip %d\n.section .note.GNU-stack,"",@progbits\n' $* > $@
sqlite3.o sqload.o: %.o: %.c
	$(CC) -O2 -c $<
