%TAG !e! tag:e,2000:
---
distributed_type: 'NO'
